"""What stands in the way of a job's machines: their own error records, and images that are not there."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.backends.findings import Finding
from tidemill.client.reconciler import read_report
from tidemill.store import Store

if TYPE_CHECKING:
    from tidemill.client.pipeline import Pipeline

FLEET_ERRORS = "fleet/errors"
RECENT = timedelta(days=1)
SHOWN = 3
"""Machines whose errors are named."""
_STAMP = re.compile(r"^\d{8}T\d{6}Z-")
"""What a machine on GCP writes before its name: the records of a day can then be listed without those of a week."""


@dataclass(frozen=True)
class FleetError:
    """What a machine that could not run its worker said before it took itself out of service.

    Attributes:
        name: The record's name in the store.
        machine: The machine.
        error: What it said.
        at: When; None when it did not say.
    """

    name: str
    machine: str
    error: str
    at: datetime | None

    def text(self) -> str:
        """One line: the machine, and the last line of what it said."""
        lines = [line.strip() for line in self.error.splitlines() if line.strip()]
        return f"{self.machine}: {lines[-1] if lines else 'no reason given'}"


def fleet_errors(store: Store) -> list[FleetError]:
    """Records that machines have left within the last day, the newest first."""
    found = [_fleet_error(name, data) for name in store.list(FLEET_ERRORS) if (data := store.find(name)) is not None]
    now = datetime.now(UTC)
    recent = [error for error in found if error.at is None or error.at >= now - RECENT]
    return sorted(recent, key=lambda error: error.at or now, reverse=True)


def machine_words(pipeline: Pipeline, queue: str) -> list[str]:
    """What keeps a queue's machines from coming: quotas and stockouts first, then a reconciler that does not run."""
    report = read_report(pipeline.store) if pipeline.descriptor.cloud == "gcp" else None
    return [] if report is None else [*report.troubles(queue), *report.remarks(queue, pipeline.backend.now())]


def fleet_words(pipeline: Pipeline, queue: str) -> list[str]:
    """The same, and then what machines that could not run their worker said within a day."""
    errors = fleet_errors(pipeline.store)[:SHOWN]
    return machine_words(pipeline, queue) + [error.text() for error in errors]


def _fleet_error(name: str, data: bytes) -> FleetError:
    machine = _STAMP.sub("", name.rpartition("/")[2].removesuffix(".json"))
    text = data.decode(errors="replace").strip()
    try:
        fields = json.loads(text)
        at = datetime.fromisoformat(fields["at"])
        return FleetError(name, machine, str(fields["error"]), at if at.tzinfo else at.replace(tzinfo=UTC))
    except (ValueError, TypeError, KeyError):
        return FleetError(name, machine, text, None)


def image_faults(pipeline: Pipeline, queue: str, image: str) -> list[Finding]:
    """What is wrong with an image of a queue, as far as the caller's login may see it; empty when nothing is.

    Args:
        pipeline: The pipeline.
        queue: Name of one of its queues.
        image: Name of one of the queue's images.
    """
    if pipeline.descriptor.cloud == "local":
        # This machine's programs are its own.
        return []
    from tidemill.backends.checks import open_checks

    checks = open_checks(pipeline.store.uri, pipeline.descriptor)
    if checks is None:
        return []
    found = checks.image(f"image {queue}/{image}", pipeline.descriptor.queues[queue].images[image])
    return [found] if found.verdict == "fault" else []
