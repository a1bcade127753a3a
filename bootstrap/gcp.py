"""The stack of a Google Cloud project."""

import pulumi

from components.base import as_args
from components.config.bootstrap_models import BootstrapConfig
from components.gcp.bootstrap import SERVICES, GcpBootstrap, GcpBootstrapArgs
from components.gcp.ci import GcpCi, GcpCiArgs
from components.protection import Protection, ProtectionArgs


def make(config: BootstrapConfig) -> GcpBootstrap:
    """Make a project's resources, and CI's identities if there are settings for them."""
    labels = {"tidemill-account": "bootstrap"}
    services = config.services or [*SERVICES]
    project = GcpBootstrap("tidemill", GcpBootstrapArgs(services=services, purge=config.purge, labels=labels))
    made: list[pulumi.Resource] = [project]
    if config.ci:
        own = {"state_bucket": project.state_bucket, "kms_key": project.kms_key}
        accounts = GcpCi("tidemill-ci", as_args(GcpCiArgs, {**config.ci.model_dump(exclude_unset=True), **own}))
        login = {"preview": accounts.preview_account, "deploy": accounts.deploy_accounts}
        pulumi.export("ci", {"backend_url": project.backend_url, "provider": accounts.provider, **login})
        made.append(accounts)
    last = pulumi.ResourceOptions(depends_on=made)
    Protection("tidemill", ProtectionArgs(config.purge, "tidemill-bootstrap:purge"), last)
    return project
