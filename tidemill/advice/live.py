"""The one place that picks a live source by the cloud."""

from __future__ import annotations

from tidemill import clouds
from tidemill.advice.cache import Cache
from tidemill.advice.sources import LiveSource


def open_source(cloud: str, region: str, account: str, *, cache: Cache | None = None) -> LiveSource | None:
    """The live source of a pipeline's cloud; None for a local pipeline. It asks nothing yet.

    Args:
        cloud: As a descriptor names it.
        region: Of the pipeline.
        account: AWS account id or GCP project id.
        cache: Where answers are kept; None for the user's cache folder.
    """
    record = clouds.find(cloud)
    return record.part("advice").open_source(region, account, cache) if record and record.login else None
