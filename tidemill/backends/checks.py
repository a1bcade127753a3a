"""Which cloud's checks a pipeline needs, told by the URI of its store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tidemill.backends.findings import Finding
from tidemill.descriptor import Descriptor, Image


class Checks(Protocol):
    """What `tidemill doctor` asks a cloud, with the caller's own login."""

    def login(self) -> tuple[Finding, str | None]:
        """Whether there is a valid login, and the account's id where a login has one."""
        ...

    def pipeline(self, descriptor: Descriptor) -> Iterator[Finding]:
        """Queues, images and whatever else a job needs of the cloud."""
        ...

    def image(self, check: str, image: Image) -> Finding:
        """Whether an image is where the stack says it is, as far as this login may see."""
        ...


def open_checks(uri: str, descriptor: Descriptor | None = None) -> Checks | None:
    """Checks of a pipeline's cloud; None where there is no login to speak of.

    Args:
        uri: Of the store, or of anything in it.
        descriptor: The pipeline, where it could be read already.

    Raises:
        CallerError: The cloud's SDK is missing, or AWS_PROFILE names no profile.
    """
    if uri.startswith("s3://"):
        from tidemill.backends.aws_checks import AwsChecks

        return AwsChecks(descriptor.region if descriptor else None)
    if uri.startswith("gs://"):
        from tidemill.backends.gcp_checks import GcpChecks

        return GcpChecks(descriptor.account if descriptor else "")
    return None
