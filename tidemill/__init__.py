"""Tidemill: item-parallel jobs on Spot capacity.

Example:
    >>> import tidemill
    >>> pipeline = tidemill.Pipeline.load("s3://vision-dev-store/pipeline.json")
    >>> job = pipeline.submit(["python3", "features.py", "{input}", "{output}"], "items.txt", queue="cpu")
    >>> job.wait().succeeded
    3
    >>> [outcome.status for outcome in job.results()]
    ['succeeded', 'succeeded', 'succeeded']
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.client import Job, Pipeline

__version__ = "0.1.0"
__all__ = ["Job", "Pipeline", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the SDK when it is first used: `tidemill --help` and the worker do without it."""
    if name in {"Job", "Pipeline"}:
        from tidemill import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
