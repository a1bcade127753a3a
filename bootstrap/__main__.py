"""The stack of an AWS account or a Google Cloud project: run ``pulumi up`` here once per account or project."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components.base import as_args
from components.config import ConfigError

if TYPE_CHECKING:
    from components.aws.bootstrap import AwsBootstrap
    from components.gcp.bootstrap import GcpBootstrap

config = pulumi.Config()
purge = config.get_bool("purge") or False
ci: dict[str, Any] = config.get_object("ci") or {}


def aws() -> "AwsBootstrap":
    """An account's stack."""
    # Import only the stack's own cloud SDK: an environment for one cloud has no other.
    from components.aws.account import account_of  # noqa: PLC0415
    from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs  # noqa: PLC0415
    from components.aws.ci import AwsCi, AwsCiArgs  # noqa: PLC0415

    tags = {"tidemill:account": "bootstrap"}
    linked = config.require_object("serviceLinkedRoles")
    account = AwsBootstrap("tidemill", AwsBootstrapArgs(service_linked_roles=linked, purge=purge, tags=tags))
    if ci:
        own = {"state_arn": account.state_arn, "key_arn": account.key_arn, "tags": tags}
        roles = AwsCi("tidemill-ci", as_args(AwsCiArgs, {**ci, **own}))
        login = {"preview": roles.preview_role_arn, "deploy": roles.deploy_role_arns}
        # CI logs in to a stack's region, and the state may be in another one.
        backend = pulumi.Output.concat(account.backend_url, "?region=", account_of(account).region)
        pulumi.export("ci", {"backend_url": backend, **login})
        pulumi.export("permission_boundaries", roles.boundary_arns)
    return account


def gcp() -> "GcpBootstrap":
    """A project's stack."""
    from components.gcp.bootstrap import SERVICES, GcpBootstrap, GcpBootstrapArgs  # noqa: PLC0415
    from components.gcp.ci import GcpCi, GcpCiArgs  # noqa: PLC0415

    labels = {"tidemill-account": "bootstrap"}
    services: list[str] = config.require_object("services") or [*SERVICES]
    project = GcpBootstrap("tidemill", GcpBootstrapArgs(services=services, purge=purge, labels=labels))
    if ci:
        own = {"state_bucket": project.state_bucket, "kms_key": project.kms_key}
        accounts = GcpCi("tidemill-ci", as_args(GcpCiArgs, {**ci, **own}))
        login = {"preview": accounts.preview_account, "deploy": accounts.deploy_accounts}
        pulumi.export("ci", {"backend_url": project.backend_url, "provider": accounts.provider, **login})
    return project


try:
    home = gcp() if config.get("cloud") == "gcp" else aws()
except (ConfigError, TypeError) as error:
    raise pulumi.RunError(f"tidemill-bootstrap: {error}") from None
pulumi.export("backend_url", home.backend_url)
pulumi.export("secrets_provider", home.secrets_provider)
