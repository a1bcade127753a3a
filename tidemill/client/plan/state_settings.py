"""Parses and checks the `state=` argument."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tidemill.client.items.spool import Spool
from tidemill.client.journal import find_spec
from tidemill.descriptor import Queue
from tidemill.errors import CallerError, shown
from tidemill.figures import counted, duration
from tidemill.job import LONGEST_STATELESS_SECONDS, JobSpec, StateSettings
from tidemill.manifest import ManifestIndex, read_items
from tidemill.store import Store

ITEM_SECONDS = 3600.0
"""Limit of an attempt, unless the caller says otherwise."""
STATE_SECONDS = 7 * 86_400.0
"""The same of an item with state."""
CHUNK_SECONDS = 3600.0
"""How long an item with state takes, where the caller does not say: each is a chunk of its own."""


def settings_of(state: bool | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Settings with their defaults, not yet checked; None for items without state."""
    if state is None or state is False:
        return None
    if state is not True and not isinstance(state, Mapping):
        allowed = f"True, or settings: {', '.join(StateSettings.model_fields)}"
        raise CallerError.about("state", state, allowed, "Leave it out for items without state.")
    given = {} if state is True else dict(state)
    for key in given:
        if key not in StateSettings.model_fields:
            raise CallerError.unknown("setting", key, "state", StateSettings.model_fields)
    return StateSettings().model_dump() | given


def with_origin(store: Store, settings: dict[str, Any] | None) -> dict[str, Any] | None:
    """The settings with the full id of the job whose state items begin with, if they name one.

    Raises:
        CallerError: There is no such job, or nothing of its state.
    """
    if settings is None or settings["from_job"] is None:
        return settings
    name, what = settings["from_job"], "state.from_job"
    spec = find_spec(store, str(name))
    if spec.state is None:
        raise CallerError.about(what, name, "a job whose items have state", "Name another, or leave it out.")
    # The state of a job with one item is what every item begins with.
    item = 0 if spec.items_total == 1 else settings["from_item"]
    from tidemill.state.snapshots import newest_tree

    if newest_tree(store, spec.job, item or 0) is None:
        allowed = f"a job with saved state, and item {item or 0} of {spec.job} has none"
        raise CallerError.about(what, name, allowed, "It has saved none yet, or it has expired.")
    return settings | {"from_job": spec.job, "from_item": item}


def check_paired(store: Store, settings: StateSettings | None, spool: Spool) -> None:
    """Refuse items that are to begin with the state of the same items of another job, and are not among them.

    Raises:
        CallerError: Some of them are not.
    """
    if settings is None or settings.from_job is None or settings.from_item is not None:
        return
    from tidemill.state.pair import key_of

    index = ManifestIndex.load(store, settings.from_job)
    theirs = {key_of(item) for item in read_items(store, settings.from_job, index)}
    strange = [item.uri for item in spool.items() if key_of(item) not in theirs]
    if strange:
        are = f"{counted(len(strange), 'item')} of {spool.count} {'is' if len(strange) == 1 else 'are'} not in it"
        raise CallerError(
            f"state.from_job is {settings.from_job!r}, and {are} with the same metadata, such as {shown(strange[0])}.",
            "Give items of that job, in any order, or name one of them for all: "
            f"state={{'from_job': {settings.from_job!r}, 'from_item': 0}}.",
            what="state.from_job",
        )


def timeout_of(seconds: float | None, state: Mapping[str, Any] | None) -> float:
    if seconds is None:
        return ITEM_SECONDS if state is None else STATE_SECONDS
    return seconds


def check_state(spec: JobSpec) -> None:
    """Refuse what state cannot be for.

    Raises:
        CallerError: The job runs a function, or its items may take longer than without state is sensible.
    """
    if spec.state is not None and spec.function is not None:
        raise CallerError(
            f"state is asked for, and the job runs the function {spec.function!r}.",
            "Give a program instead: `python3 train.py`. Functions are for short items.",
            what="state",
        )


def long_on_spot(spec: JobSpec, queue: Queue, item_seconds: float | None) -> str | None:
    """Remark on items that keep nothing, take long, and run on machines that may be taken away."""
    seconds = item_seconds or spec.timeout_seconds
    if spec.state is not None or seconds <= ITEM_SECONDS or not any(rung.market == "spot" for rung in queue.capacity):
        return None
    kept = "" if spec.function else " {state} is a folder that they find again: `state=True`."
    return f"Items may take {duration(seconds)}, and begin anew when their Spot machine is taken away.{kept}"


def expires_early(spec: JobSpec, days: int | None) -> str | None:
    """Remark on items that may take longer than the store keeps their job."""
    if days is None or spec.timeout_seconds < days * 86_400:
        return None
    return (
        f"The stack deletes what a job needs {counted(days, 'day')} after it was sent (expire_jobs_after_days), and an "
        f"attempt may take {duration(spec.timeout_seconds)} (`timeout_seconds`): what is not done by then is lost."
    )


def expires_soon(spec: JobSpec, days: int | None) -> str | None:
    """The same of a job that was sent a while ago, and some of whose items run again now."""
    age = max(0.0, (datetime.now(UTC) - spec.created_at).total_seconds())
    if days is None or spec.timeout_seconds < (left := max(0.0, days * 86_400 - age)):
        return None
    return (
        f"an attempt may take {duration(spec.timeout_seconds)}, and the stack deletes what the job needs in "
        f"{duration(left)}: expire_jobs_after_days"
    )


def check_timeout(seconds: Any, state: Mapping[str, Any] | None) -> None:
    """Refuse a limit that only items with state may have."""
    if state is None and isinstance(seconds, (int, float)) and seconds > LONGEST_STATELESS_SECONDS:
        raise CallerError.about(
            "timeout_seconds",
            seconds,
            f"at most {LONGEST_STATELESS_SECONDS} seconds without state",
            "Keep the state of the items, for up to 28 days: `state=True`.",
        )
