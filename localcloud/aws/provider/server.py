"""`pulumi-resource-aws`."""

from __future__ import annotations

import os
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.provider.server import Servicer, serve

from . import invokes
from .resources import Clients
from .table import AWS


class AwsProvider:
    """AWS, in the form that the shared server expects."""

    kind = AWS
    version = "7.51.1"
    config = frozenset(
        {"region", "defaultTags", "version", "profile", "allowedAccountIds", "skipCredentialsValidation"}
        | {"skipMetadataApiCheck", "skipRegionValidation", "skipRequestingAccountId"}
        # Of another login or of others' tags, which localcloud does not have.
        | {"assumeRoles", "assumeRoleWithWebIdentity", "forbiddenAccountIds", "ignoreTags", "stsRegion"}
        | {"maxRetries", "retryMode", "sharedConfigFiles", "sharedCredentialsFiles", "useDualstackEndpoint"}
        | {"useFipsEndpoint", "httpProxy", "httpsProxy", "noProxy", "customCaBundle", "userAgents"}
    )
    default_tags = "defaultTags"
    errors: tuple[type[Exception], ...] = (ClientError, BotoCoreError)

    def configure(self, settings: dict[str, Any]) -> Clients:
        """Create clients in the configured region.

        Raises:
            ValueError: No region is set.
        """
        region = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region:
            raise ValueError("aws:region is not set: pulumi config set aws:region …")
        return Clients(str(region))

    def invoke(self, token: str, args: dict[str, Any], clients: Clients) -> dict[str, Any]:
        return invokes.invoke(token, args, clients)


def main() -> None:
    serve(Servicer(AwsProvider()))
