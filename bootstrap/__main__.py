"""The stack of an AWS account or a Google Cloud project: ``pulumi up`` in this folder once for each."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs
from components.gcp.bootstrap import GcpBootstrap, GcpBootstrapArgs

config = pulumi.Config()
purge = config.get_bool("purge") or False
if config.get("cloud") == "gcp":
    home = GcpBootstrap(
        "tidemill",
        GcpBootstrapArgs(
            services=config.require_object("services"), purge=purge, labels={"tidemill-account": "bootstrap"}
        ),
    )
else:
    home = AwsBootstrap(
        "tidemill",
        AwsBootstrapArgs(
            service_linked_roles=config.require_object("serviceLinkedRoles"),
            purge=purge,
            tags={"tidemill:account": "bootstrap"},
        ),
    )
pulumi.export("backend_url", home.backend_url)
pulumi.export("secrets_provider", home.secrets_provider)
