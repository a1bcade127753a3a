"""The one place that picks a live source by the cloud."""

from __future__ import annotations

from tidemill.advice.cache import Cache
from tidemill.advice.sources import LiveSource


def open_source(cloud: str, region: str, account: str, *, cache: Cache | None = None) -> LiveSource | None:
    """The live source of a pipeline's cloud; None for a local pipeline. It asks nothing yet.

    Args:
        cloud: `aws`, `gcp` or `local`.
        region: Of the pipeline.
        account: AWS account id or GCP project id.
        cache: Where answers are kept; None for the user's cache folder.
    """
    if cloud == "aws":
        from tidemill.advice.aws import AwsSource

        return AwsSource(region, account, cache=cache)
    if cloud == "gcp":
        from tidemill.advice.gcp import GcpSource

        return GcpSource(account, cache=cache)
    return None
