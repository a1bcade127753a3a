"""The question of an estimate: the arguments of `Pipeline.estimate`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from tidemill.job import Item

Items = int | str | Path | Iterable[str | Path | Item]


@dataclass(frozen=True)
class EstimateRequest:
    """A job whose time and cost a caller wants to know.

    Attributes:
        items: How many, or the items as `submit` takes them; None for as many as `like` has.
        items_format: See `JobRequest`, like `items_column`, `cpus`, `memory`, `memory_mib` and `gpus`.
        item_time: How long an item takes in its slot, such as `7m`; None to learn it from `like`.
        item_seconds: The same in seconds.
        like: Id or name of a job whose items took as long, on the same queue and size unless stated here.
        queue: One of the pipeline's queues; may be left out when there is only one.
        slots: AWS: items that run side by side in one container.
    """

    items: Items | None = None
    _: KW_ONLY
    items_format: str | None = None
    items_column: str | None = None
    item_time: str | float | None = None
    item_seconds: float | None = None
    like: str | None = None
    queue: str | None = None
    cpus: float | None = None
    memory: str | float | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    slots: int | None = None
