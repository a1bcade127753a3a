"""Clouds that are on this machine."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

_OVERRIDES = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
"""Prefix of variables that gcloud reads: https://cloud.google.com/sdk/gcloud/reference/config/set."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def emulated() -> bool:
    """True if the clouds' APIs are on this machine, as localcloud's are, so that nothing is billed."""
    names = ("AWS_ENDPOINT_URL", "PUBSUB_EMULATOR_HOST")
    values = [value for name, value in os.environ.items() if name in names or name.startswith(_OVERRIDES)]
    hosts = [urlsplit(value if "://" in value else f"http://{value}").hostname for value in values if value]
    return any(host in LOOPBACK for host in hosts)
