"""Schedules and arrivals, which send jobs without a person: what comes, goes or changes, and the sender's price."""

from collections.abc import Iterator, Mapping
from typing import Any

from cronsim import CronSimError

from components.config import Arrival, ConfigError, Schedule, part
from components.money import Book, ServicePrices, total
from components.rooms import cloud_room
from components.sending import Triggers
from ops.review.document import Preview
from ops.review.models import Finding, IdleCost, Severity

_MODELS: dict[str, type[Schedule | Arrival]] = {"schedules": Schedule, "arrivals": Arrival}
_CHANGES: dict[str, tuple[Severity, str]] = {
    "template": ("medium", "sends another template: {new}, was {old}"),
    "cron": ("medium", "sends at other times: {new}, was {old}"),
    "timezone": ("medium", "sends at other times: its zone is {new}, was {old}"),
    "prefix": ("high", "sends for files in {new}, and no longer for those in {old}"),
    "settle_minutes": ("low", "waits {new} minutes without a new file, was {old}"),
    "most_per_hour": ("low", "sends at most {new} jobs an hour, was {old}"),
}
"""Keys whose change is told as it is. `overlap` and `queues` depend on the values."""
_OVERLAPS = {
    "skip": "leaves a time out while the job before has not ended",
    "wait": "sends a job that begins when the one before is complete",
    "allow": "sends jobs that may run beside each other",
}


def idle(preview: Preview, prices: ServicePrices) -> Iterator[IdleCost]:
    """The sender's calls in a month without files: two rows where they change. What calls it is a resource."""
    base = preview.base.config if preview.base else {}
    after = _sending(preview.config)
    before = _sending({key: base.get(f"tidemill:{key}") for key in _MODELS}) if base or preview.first else after
    if before == after:
        yield from _row(preview, "sender's calls", after, (1, 1), prices)
        return
    yield from _row(preview, "sender's calls until now" if after.any else "sender's calls", before, (1, 0), prices)
    yield from _row(preview, "sender's calls", after, (0, 1), prices)


def _sending(config: Mapping[str, Any]) -> Triggers:
    sides = {}
    for key, model in _MODELS.items():
        read = {name: _read(model, values) for name, values in (config.get(key) or {}).items()}
        sides[key] = {name: sent for name, sent in read.items() if sent}
    return Triggers(**sides)


def _row(
    preview: Preview, what: str, sent: Triggers, counts: tuple[int, int], prices: ServicePrices
) -> Iterator[IdleCost]:
    if not sent.any:
        return
    try:
        bill = total(cloud_room(preview.cloud, "money").sender(sent, Book(preview.cloud, preview.region or "", prices)))
    except CronSimError:
        return  # The stack's checks refuse the file and say why.
    yield IdleCost(what, *counts, bill.usd_high if bill.complete and preview.region else None)


def findings(preview: Preview) -> Iterator[Finding]:
    """Findings of the kind `work`, from the stack file; none where the one before is not known."""
    base = preview.base.config if preview.base else {}
    if not base and not preview.first:
        return
    for key, model in _MODELS.items():
        before, after = base.get(f"tidemill:{key}") or {}, preview.config.get(key) or {}
        for name in sorted({*before, *after}):
            old, new = (_read(model, side.get(name)) for side in (before, after))
            yield from (_finding(f"{key}.{name}", *each) for each in _told(old, new, first=preview.first))


def _read(model: type[Schedule | Arrival], values: Mapping[str, Any] | None) -> Schedule | Arrival | None:
    """The keys as their model; None where they are not there, or wrong in another version's eyes."""
    try:
        return None if values is None else part(model, values)
    except ConfigError:
        return None


def _finding(where: str, severity: Severity, title: str) -> Finding:
    return Finding(severity, "work", where, "", title)


def _told(
    old: Schedule | Arrival | None, new: Schedule | Arrival | None, *, first: bool
) -> Iterator[tuple[Severity, str]]:
    """Severity and title of each difference."""
    if new is None:
        if old is not None:
            yield "high", f"goes: nothing sends the template {old.template} any more {_when(old)}"
        return
    if old is None:
        yield "low" if first else "medium", f"new: sends the template {new.template} {_when(new)} without a person"
        return
    for key, (severity, title) in _CHANGES.items():
        was, now = getattr(old, key, None), getattr(new, key, None)
        if was != now:
            yield severity, title.format(old=was, new=now)
    if isinstance(old, Schedule) and isinstance(new, Schedule) and old.overlap != new.overlap:
        yield "medium", f"overlap is {new.overlap}, was {old.overlap}: {_OVERLAPS[new.overlap]}"
    yield from _queues(old.queues, new.queues)


def _queues(old: list[str] | None, new: list[str] | None) -> Iterator[tuple[Severity, str]]:
    """A template of a queue that is no longer named is refused when its time comes."""
    if new is not None and (gone := sorted({*(old or [])} - {*new})):
        yield "high", f"may no longer send to {', '.join(gone)}: a template of that queue is denied"
    elif new is not None and old is None:
        yield "high", f"may send to {', '.join(new)} alone, was every queue: a template of another is denied"
    if old is not None and (new is None or {*new} - {*old}):
        more = "every queue" if new is None else ", ".join(sorted({*new} - {*old}))
        yield "medium", f"may send to {more} as well"


def _when(sent: Schedule | Arrival) -> str:
    if isinstance(sent, Schedule):
        return f"at {sent.cron} ({sent.timezone})"
    return f"when files arrive in {sent.prefix}"
