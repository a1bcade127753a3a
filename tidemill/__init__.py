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

from __future__ import annotations

from tidemill.version import __version__

TYPE_CHECKING = False
"""As `typing` has it, whose import takes longer than all else before `tidemill.cli.main` can take in a Ctrl-C."""
if TYPE_CHECKING:
    from typing import Any

    from tidemill.client import Job, Pipeline, Status, Summary
    from tidemill.client.items.sweep import Sweep
    from tidemill.job import Item
    from tidemill.ledger import Outcome
    from tidemill.request import JobRequest

__all__ = ["Item", "Job", "JobRequest", "Outcome", "Pipeline", "Status", "Summary", "Sweep", "__version__"]
_HOMES = {
    "Item": "tidemill.job",
    "JobRequest": "tidemill.client.keywords",
    "Outcome": "tidemill.ledger",
    "Sweep": "tidemill.client.items.sweep",
}


def __getattr__(name: str) -> Any:
    """Import the SDK when it is first used: `tidemill --help` and the worker do without it."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_HOMES.get(name, "tidemill.client")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
