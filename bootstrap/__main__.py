"""The stack of an AWS account or a Google Cloud project: ``pulumi up`` in this folder once for each."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs
from components.aws.ci import AwsCi, AwsCiArgs
from components.base import as_args
from components.config import ConfigError
from components.gcp.bootstrap import GcpBootstrap, GcpBootstrapArgs

config = pulumi.Config()
purge = config.get_bool("purge") or False
ci = config.get_object("ci")
if config.get("cloud") == "gcp":
    home = GcpBootstrap(
        "tidemill",
        GcpBootstrapArgs(
            services=config.require_object("services"), purge=purge, labels={"tidemill-account": "bootstrap"}
        ),
    )
else:
    tags = {"tidemill:account": "bootstrap"}
    roles = config.require_object("serviceLinkedRoles")
    home = AwsBootstrap("tidemill", AwsBootstrapArgs(service_linked_roles=roles, purge=purge, tags=tags))
    if ci is not None:
        own = {"state_arn": home.state_arn, "key_arn": home.key_arn, "tags": tags}
        try:
            people = AwsCi("tidemill-ci", as_args(AwsCiArgs, {**ci, **own}))
        except (ConfigError, TypeError) as error:
            raise pulumi.RunError(f"tidemill-bootstrap:ci: {error}") from None
        pulumi.export("permission_boundary", people.boundary_arn)
        login = {"preview": people.preview_role_arn, "deploy": people.deploy_role_arns}
        pulumi.export("ci", {"backend_url": home.backend_url, **login})
pulumi.export("backend_url", home.backend_url)
pulumi.export("secrets_provider", home.secrets_provider)
