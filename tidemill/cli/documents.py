"""Documents of `--json` as one JSON Schema: `python -m tidemill.cli.documents docs/documents.schema.json` writes it.

It comes from the types that the commands print, so that no key is added or lost unseen. Keys are stable: a
later version may add some (readers skip what they do not know); only a new major version renames or removes one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tidemill.advice.model import ShapeAdvice
from tidemill.client import Status, Summary
from tidemill.client.estimate.estimate import JobEstimate
from tidemill.client.health.queue_request import QueueRequest
from tidemill.client.housekeeping.leftovers import Leftover
from tidemill.client.housekeeping.removal import JobRemoval
from tidemill.client.report.failures import FailureGroup
from tidemill.client.report.model import JobReport
from tidemill.client.results.download_logs import LogDownload
from tidemill.client.results.fetch_report import FetchReport
from tidemill.client.results.metrics import ItemMetrics
from tidemill.client.rounds.rounds import RoundResult
from tidemill.client.sending.preview import JobPreview
from tidemill.client.templates.history import SendRow, TemplateRow
from tidemill.client.watch.board import QueueRow
from tidemill.client.watch.job_rows import JobRow
from tidemill.client.watch.machines import MachineRow
from tidemill.clouds.findings import Finding
from tidemill.clouds.links import Links
from tidemill.descriptor import SERVICE_KEYS, Queue
from tidemill.explain import Explanation
from tidemill.fleet import FleetReport, FleetSettings, MachineError
from tidemill.ledger import Outcome

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REGENERATE = "python -m tidemill.cli.documents docs/documents.schema.json"
_WIDTH = 110


@dataclass(frozen=True)
class SubmitDocument:
    """`submit --json`."""

    job: str
    queue: str
    items: int
    chunks: int
    chunk_size: int
    output: str
    enqueued: int


@dataclass(frozen=True)
class CancelDocument:
    """`cancel --json`."""

    job: str
    cancelled: bool
    arrays_ended: int


@dataclass(frozen=True)
class RemovalDocument:
    """`rm --json` and `clean --json`; `bytes` are those of what goes, `removed` is true if it has gone."""

    jobs: list[JobRemoval]
    leftovers: list[Leftover]
    bytes: int
    removed: bool


@dataclass(frozen=True)
class Failures:
    """`failures --json`."""

    job: str
    failed: int
    groups: list[FailureGroup]


@dataclass(frozen=True)
class Context:
    """A context."""

    name: str
    pipeline: str


@dataclass(frozen=True)
class ContextList:
    """`use --json`."""

    current: str | None
    contexts: list[Context]


@dataclass(frozen=True)
class UpDocument:
    """`up --json`. Changes are numbers of resources by operation; without a pipeline it was a preview."""

    stack: str
    changes: dict[str, int]
    pipeline: str | None


@dataclass(frozen=True)
class DownDocument:
    """`down --json`."""

    stack: str
    removed: bool


@dataclass(frozen=True)
class SecretList:
    """`secret --json`."""

    place: str
    secrets: list[str]


@dataclass(frozen=True)
class TemplateDocument:
    """`template save --json`."""

    template: str
    version: int
    code: str | None


@dataclass(frozen=True)
class TemplateList:
    """`templates --json`."""

    templates: list[TemplateRow]


@dataclass(frozen=True)
class SendList:
    """`template history --json`."""

    sends: list[SendRow]


@dataclass(frozen=True)
class FleetContract:
    """The contract between a GCP stack, its reconciler and its machines (tidemill/fleet.py)."""

    settings: FleetSettings
    report: FleetReport
    machine_error: MachineError


@dataclass(frozen=True)
class DoctorDocument:
    """`doctor --json`."""

    ok: bool
    checks: list[Finding]


@dataclass(frozen=True)
class Fault:
    """An error: the line that people read, and its fields; null for a field that an error does not have."""

    exit_code: int
    message: str
    what: str | None
    value: str | None
    allowed: str | None
    fix: str | None
    command: str | None


@dataclass(frozen=True)
class ErrorDocument:
    """Every command, when it fails."""

    error: Fault


UNLESS_FALSE = {"mirrored"}
"""Keys that are left out while they are false."""
STRING: dict[str, Any] = {"type": "string"}
TRUTH: dict[str, Any] = {"type": "boolean"}


def of(kind: Any, extra: Mapping[str, Any] | None = None, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The schema of a type, with every key required that is always there."""
    schema = TypeAdapter(kind).json_schema(mode="serialization")
    for key in leave_out:
        del schema["properties"][key]
    schema["properties"] = dict(extra or {}) | schema["properties"]
    definitions = schema.get("$defs", {})
    for part in (schema, *definitions.values()):
        if "properties" in part:
            part["required"] = [key for key in part["properties"] if key not in UNLESS_FALSE]
    used = json.dumps(schema)
    schema["$defs"] = {name: part for name, part in definitions.items() if f"#/$defs/{name}" in used}
    return {key: value for key, value in schema.items() if key != "$defs" or value}


def within(key: str, part: dict[str, Any], list_of: bool = False) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Adds a key that holds another document, with its definitions."""

    def add(schema: dict[str, Any]) -> dict[str, Any]:
        inner = {name: value for name, value in part.items() if name != "$defs"}
        definitions = schema.get("$defs", {}) | part.get("$defs", {})
        properties = schema["properties"] | {key: {"type": "array", "items": inner} if list_of else inner}
        whole = {**schema, "properties": properties, "required": list(properties)}
        return whole | ({"$defs": definitions} if definitions else {})

    return add


def logged() -> dict[str, Any]:
    """A line of `logs --json`. A program's line says where it comes from; a worker's own may have more keys."""
    places = {"job": STRING, "item": {"type": "integer"}, "attempt": {"type": "integer"}, "stream": STRING}
    properties = {"at": {"type": "string", "format": "date-time"}, "message": STRING} | places
    return {"type": "object", "properties": properties, "required": ["at"]}


EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
ENDED = {"ended": TRUTH}
QUEUE = {"name": STRING, "accepting": TRUTH, "running": TRUTH, "state": STRING}


def _running() -> dict[str, Any]:
    queues = within("queues", of(QueueRow), list_of=True)
    return queues(within("jobs", of(Status, ENDED), list_of=True)(EMPTY))


def documents() -> dict[str, tuple[str, dict[str, Any]]]:
    """The description and the schema of each command's document."""
    waited = within("summary", of(Summary))(of(Status, ENDED))
    return {
        "submit": ("The job that was sent.", of(SubmitDocument)),
        "preview": ("What a submit would do (`submit --dry-run`).", of(JobPreview)),
        "train": ("The job that was sent; with --here, the job at its end.", of(SubmitDocument)),
        "estimate": ("A job's estimated time and cost.", of(JobEstimate)),
        "advise": ("Shapes of machines in the order of their cost.", of(ShapeAdvice)),
        "status": ("A job so far.", of(Status, ENDED)),
        "top": ("The running jobs, and the queues.", _running()),
        "machines": (
            "The machines that work on jobs (`top --machines`).",
            within("machines", of(MachineRow), list_of=True)(EMPTY),
        ),
        "links": ("Where the cloud's console shows a job (`status --links`).", of(Links)),
        "explain": ("Why a job does not progress: the causes that hold, the headline first.", of(Explanation)),
        "wait": ("A job at its end.", waited),
        "run": ("A job at its end.", within("pipeline", STRING)(waited)),
        "logs": ("Each line: what a program or a worker printed.", logged()),
        "download": ("What `logs --download` has written.", of(LogDownload)),
        "cancel": ("A job that was cancelled.", of(CancelDocument)),
        "retry": ("What was enqueued; with --run, the job at its end, as `run` prints it.", of(RoundResult)),
        "resume": ("What was enqueued.", of(RoundResult)),
        "jobs": ("The newest jobs.", within("jobs", of(JobRow), list_of=True)(EMPTY)),
        "results": ("Each line: the outcome of an item.", of(Outcome)),
        "fetch": ("What is in the folder now.", of(FetchReport, {"whole": TRUTH})),
        "metrics": ("Each line: the metrics of an item.", of(ItemMetrics, leave_out=("values",))),
        "failures": ("Failed items by error message, largest group first.", of(Failures)),
        "report": ("A job's time, resources, machines, failures and cost.", of(JobReport)),
        "rm": ("Jobs that are removed.", of(RemovalDocument)),
        "clean": ("What is removed, and what stays and why.", of(RemovalDocument)),
        "queues": ("The pipeline's queues.", within("queues", of(Queue, QUEUE, SERVICE_KEYS), list_of=True)(EMPTY)),
        "queue_request": ("The change that adds a queue (`queues request`).", of(QueueRequest)),
        "use": ("The contexts.", of(ContextList)),
        "up": ("A pipeline of one's own, and what has changed.", of(UpDocument)),
        "down": ("A pipeline that was taken away.", of(DownDocument)),
        "secret": ("The names of the secrets that are set.", of(SecretList)),
        "template": ("A template that was saved.", of(TemplateDocument)),
        "sends": ("What became of a template's sends (`template history`).", of(SendList)),
        "templates": ("The templates, each with its last send.", of(TemplateList)),
        "doctor": ("The checks and their findings.", of(DoctorDocument)),
        "error": ("Any command that fails.", of(ErrorDocument)),
    }


def bundle() -> dict[str, Any]:
    """One schema for all documents: `$defs` has each by its command's name, and the types that they share."""
    definitions: dict[str, Any] = {}
    parts = {"fleet": (FleetContract.__doc__, TypeAdapter(FleetContract).json_schema()), **documents()}
    for name, (text, schema) in parts.items():
        definitions |= schema.get("$defs", {})
        body = {key: value for key, value in schema.items() if key not in ("title", "description", "$defs")}
        definitions[name] = {"description": text, **body}
    head = {"$schema": DIALECT, "title": "Documents that commands print with --json"}
    return head | {"$defs": _untitled(definitions)}


def _untitled(part: Any) -> Any:
    """Without the titles that pydantic makes of names."""
    if isinstance(part, list):
        return [_untitled(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {key: _untitled(value) for key, value in part.items() if key != "title" or not isinstance(value, str)}


def text_of(value: Any, indent: str = "") -> str:
    """JSON with what is short on one line."""
    flat = json.dumps(value)
    if len(indent) + len(flat) <= _WIDTH or not isinstance(value, dict | list):
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"{inner}{text_of(each, inner)}" for each in value) + f"\n{indent}]"
    lines = (f"{inner}{json.dumps(key)}: {text_of(each, inner)}" for key, each in value.items())
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text_of(bundle()) + "\n")
