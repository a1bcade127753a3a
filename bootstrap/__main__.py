"""The account's own stack: ``pulumi up`` in this folder once for each AWS account."""

import sys
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs

config = pulumi.Config()
account = AwsBootstrap(
    "tidemill",
    AwsBootstrapArgs(
        service_linked_roles=config.require_object("serviceLinkedRoles"),
        purge=config.get_bool("purge") or False,
        tags={"tidemill:account": "bootstrap"},
    ),
)
pulumi.export("backend_url", account.backend_url)
pulumi.export("secrets_provider", account.secrets_provider)
