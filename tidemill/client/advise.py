"""Where to run, on which machines, and what that costs: shapes, the facts that are known of them, and their order."""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.advice.known import from_tables
from tidemill.advice.model import ShapeAdvice, document
from tidemill.advice.rank import Work, rank
from tidemill.advice.shapes import Need, regions_of, shapes
from tidemill.errors import CallerError


@dataclass(frozen=True)
class AdviceWanted:
    """What advice is asked for; see `tidemill advise`."""

    need: Need
    regions: tuple[str, ...]
    hours: float = 1.0
    one_zone: bool = False
    limit: int = 20


def advise(wanted: AdviceWanted) -> ShapeAdvice:
    """Shapes that satisfy a need, the cheapest for the work first.

    Raises:
        CallerError: Which argument, its value, what is allowed, what to do.
    """
    need = wanted.need
    if not (need.cpus or need.gpus or need.memory_mib):
        raise CallerError("Nothing is asked for.", "Give --gpus, --cpus or --memory.", what="cpus")
    found = shapes(need, regions_of(wanted.regions), one_zone=wanted.one_zone)
    ranked = rank(map(from_tables, found), Work(need.cpus, need.gpus, wanted.hours))
    return document(ranked, hours=wanted.hours, unit="gpu" if need.gpus else "vcpu", limit=wanted.limit)
