"""`pulumi-resource-aws`."""

from __future__ import annotations

import os
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.provider.server import Provider, serve

from . import invokes
from .clients import Clients
from .table import AWS

CONFIG = frozenset(
    {"region", "defaultTags", "version", "profile", "allowedAccountIds", "skipCredentialsValidation"}
    | {"skipMetadataApiCheck", "skipRegionValidation", "skipRequestingAccountId"}
    # Of another login or of others' tags, which localcloud does not have.
    | {"assumeRoles", "assumeRoleWithWebIdentity", "forbiddenAccountIds", "ignoreTags", "stsRegion"}
    | {"maxRetries", "retryMode", "sharedConfigFiles", "sharedCredentialsFiles", "useDualstackEndpoint"}
    | {"useFipsEndpoint", "httpProxy", "httpsProxy", "noProxy", "customCaBundle", "userAgents"}
)


def configure(settings: dict[str, Any]) -> Clients:
    """Create clients in the configured region.

    Raises:
        ValueError: No region is set.
    """
    region = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ValueError("aws:region is not set: pulumi config set aws:region …")
    return Clients(str(region))


PROVIDER = Provider(AWS, "7.51.1", CONFIG, "defaultTags", (ClientError, BotoCoreError), configure, invokes.invoke)


def main() -> None:
    serve(PROVIDER)
