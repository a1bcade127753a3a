"""Figures of machine types from a pipeline's own jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemill.advice.rank import DatedFigure, ReclaimMean

ENOUGH_HOURS = 50.0
"""Machine-hours of a type on Spot below which reclaims say too little."""


@dataclass(frozen=True)
class OwnFigures:
    """Figures from own jobs, by machine type as `type_name` has it.

    Attributes:
        cloud: The pipeline's.
        region: The pipeline's: reclaims of other regions are other reclaims.
        items_per_second: Of one machine, on jobs like the one asked for.
        reclaims: Of types with at least `ENOUGH_HOURS` on Spot.
        item_seconds: How long an item of the job asked for takes; None where it keeps state, or no job was named.
    """

    cloud: str
    region: str
    items_per_second: Mapping[str, DatedFigure] = field(default_factory=dict)
    reclaims: Mapping[str, ReclaimMean] = field(default_factory=dict)
    item_seconds: float | None = None
    left_out: tuple[str, ...] = ()
    """Sentences about jobs that could not be read."""
