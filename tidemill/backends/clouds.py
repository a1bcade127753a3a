"""The one place that picks a cloud. Each cloud's SDK is imported only when a pipeline needs it."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from tidemill.backends import Backend
from tidemill.backends.findings import Checks
from tidemill.descriptor import Descriptor
from tidemill.store import Store

_OVERRIDES = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"
"""What gcloud reads: https://cloud.google.com/sdk/gcloud/reference/config/set."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def emulated() -> bool:
    """Whether the clouds' APIs are on this machine, as localcloud's are, so that nothing costs anything."""
    names = ("AWS_ENDPOINT_URL", "PUBSUB_EMULATOR_HOST")
    values = [value for name, value in os.environ.items() if name in names or name.startswith(_OVERRIDES)]
    hosts = [urlsplit(value if "://" in value else f"http://{value}").hostname for value in values if value]
    return any(host in LOOPBACK for host in hosts)


def open_backend(descriptor: Descriptor, store: Store) -> Backend:
    if descriptor.cloud == "aws":
        from tidemill.backends.aws.batch import AwsBatch

        return AwsBatch(descriptor)
    if descriptor.cloud == "gcp":
        from tidemill.backends.gcp.pubsub import GcpPubSub

        return GcpPubSub(descriptor, store)
    from tidemill.backends.local import LocalBackend

    return LocalBackend(descriptor)


def open_checks(uri: str, descriptor: Descriptor | None = None) -> Checks | None:
    """Checks of a pipeline's cloud; None where no login is needed.

    Raises:
        CallerError: The cloud's SDK is missing, or AWS_PROFILE names no profile.
    """
    if uri.startswith("s3://"):
        from tidemill.backends.aws.checks import AwsChecks

        return AwsChecks(descriptor.region if descriptor else None)
    if uri.startswith("gs://"):
        from tidemill.backends.gcp.checks import GcpChecks

        return GcpChecks(descriptor.account if descriptor else "")
    return None
