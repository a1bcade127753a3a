"""The stack of a Google Cloud project."""

from typing import Any

import pulumi

from components.base import as_args
from components.gcp.bootstrap import SERVICES, GcpBootstrap, GcpBootstrapArgs
from components.gcp.ci import GcpCi, GcpCiArgs


def make(config: pulumi.Config, ci: dict[str, Any], *, purge: bool) -> GcpBootstrap:
    """Make a project's resources, and CI's identities if there are settings for them."""
    labels = {"tidemill-account": "bootstrap"}
    services: list[str] = config.require_object("services") or [*SERVICES]
    project = GcpBootstrap("tidemill", GcpBootstrapArgs(services=services, purge=purge, labels=labels))
    if ci:
        own = {"state_bucket": project.state_bucket, "kms_key": project.kms_key}
        accounts = GcpCi("tidemill-ci", as_args(GcpCiArgs, {**ci, **own}))
        login = {"preview": accounts.preview_account, "deploy": accounts.deploy_accounts}
        pulumi.export("ci", {"backend_url": project.backend_url, "provider": accounts.provider, **login})
    return project
