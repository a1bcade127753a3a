"""Faults that keep a job's machines from working: their own error records, and missing images."""

from __future__ import annotations

import heapq
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.client.site import Site
from tidemill.layout import FLEET_ERRORS
from tidemill.store import Store

if TYPE_CHECKING:
    from tidemill.clouds.findings import Finding

RECENT_SECONDS = 86_400.0
SHOWN = 3
"""Machines whose errors are named."""
_STAMP = re.compile(r"^\d{8}T\d{6}Z-")
"""Time that a machine on GCP writes before its name: a day's records can then be listed without those of a week."""


@dataclass(frozen=True)
class FleetError:
    """The error of a machine that could not run its worker, and the name of its record."""

    name: str
    machine: str
    error: str

    def text(self) -> str:
        """One line: the machine, and the last line of its error."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return f"{self.machine}: {lines[-1] if lines else 'no reason given'}"


def fleet_errors(store: Store, since: float = 0.0) -> tuple[list[FleetError], int]:
    """The newest records that machines have left within the last day, and since a time; and how many there are.

    A bad image leaves thousands of records, so only those that are shown are read; the listing tells their age.
    """
    since = max(since, time.time() - RECENT_SECONDS)
    recent = [entry for entry in store.entries(FLEET_ERRORS) if entry.modified >= since]
    newest = heapq.nlargest(SHOWN, recent, key=lambda entry: entry.modified)
    errors = [_fleet_error(entry.name, data) for entry in newest if (data := store.find(entry.name)) is not None]
    return errors, len(recent)


def machine_words(site: Site, queue: str) -> list[str]:
    """Reasons why a queue gets no machines: quotas and stockouts first, then a reconciler that does not run."""
    if not site.service(queue).reconciled:
        return []
    from tidemill.client.health.reconciler import read_report

    report = read_report(site.store)
    return (
        [] if report is None else [*report.problems(queue), *report.late(site.account.now()), *report.open_rungs(queue)]
    )


def fleet_words(site: Site, queue: str) -> list[str]:
    """The same, and then the errors of a day of machines that could not run their worker."""
    errors, _ = fleet_errors(site.store)
    return machine_words(site, queue) + [error.text() for error in errors]


def _fleet_error(name: str, data: bytes) -> FleetError:
    from pydantic import TypeAdapter

    from tidemill.fleet import MachineError

    machine = _STAMP.sub("", name.rpartition("/")[2].removesuffix(".json"))
    text = data.decode(errors="replace").strip()
    try:
        return FleetError(name, machine, TypeAdapter(MachineError).validate_json(text).error)
    except ValueError:
        return FleetError(name, machine, text)


def image_problems(site: Site, queue: str, image: str) -> list[Finding]:
    """Problems of an image of a queue, as far as the caller's login may see them."""
    if site.local:
        # This machine's programs are its own.
        return []
    from tidemill.client.site import open_checks

    place = site.descriptor.queues[queue]
    alone = site.descriptor.model_copy(update={"queues": {queue: place}})
    opened = open_checks(site.store.uri, alone)
    findings = (checks.image(f"image {queue}/{image}", place, place.images[image]) for checks, _ in opened)
    return [finding for finding in findings if finding.verdict == "fault"]
