"""A job: its spec and its items. Everything else in the package may import this."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from tidemill import layout, secrecy
from tidemill.descriptor import SPEC_VERSION, Resources, Told
from tidemill.errors import CallerError
from tidemill.version import __version__

MAX_CHUNKS = 50_000
"""Chunks of a job: keeps listings, and so `status`, short. More items make larger chunks."""

MAX_CHUNK_ITEMS = 1_000_000
MAX_AFTER = 20
"""Jobs that a job may wait for. AWS Batch takes as many dependencies:
https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitJob.html."""

LONGEST_STATELESS_SECONDS = 7 * 86_400
"""Time limit of an attempt that begins with nothing after each reclaim."""
LONGEST_SECONDS = 28 * 86_400
"""Time limit of an attempt on an item with state."""
MAX_USD = 1e9
"""More than any real limit."""
NAME_PATTERN = r"^[a-z][a-z0-9-]{0,40}$"
INPUT_PATTERN = r"^[a-z][a-z0-9_]{0,40}$"
_STAGED = re.compile(r"\{input\}|TIDEMILL_INPUT(?![A-Z0-9_])")
JOB_PATTERN = r"^[a-z][a-z0-9-]{0,40}-[0-9a-f]{8}$"


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of a user's work."""

    index: int
    """Position in the job, from 0."""
    uri: str
    """What the user named: a URI, a path, or any text that the program understands."""
    meta: Mapping[str, Any] | None = None
    """What the user attached to the item, or None."""


class CostLimit(BaseModel):
    """What a job may cost, estimated from what it consumes: the seconds that items hold their share of a machine, at a
    price that the submit writes down.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    max_usd: float = Field(gt=0, le=MAX_USD, allow_inf_nan=False)
    """USD, all rounds together."""
    usd_per_item_hour: float = Field(gt=0, le=MAX_USD, allow_inf_nan=False)
    """USD per hour of an item's share of a machine."""

    def usd(self, seconds: float) -> float:
        return seconds / 3600 * self.usd_per_item_hour

    def reached(self, seconds: float) -> str:
        return f"max_usd: about {self.usd(seconds):.2f} of {self.max_usd:.2f} USD are spent"

    @property
    def seconds(self) -> float:
        return self.max_usd / self.usd_per_item_hour * 3600


class After(BaseModel):
    """Another job that must be complete before a job's first item runs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    success: bool = False
    """Whether all of its items must have succeeded, too."""


class Expected(BaseModel):
    """What the submit expected of the job, for its report."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    item_seconds: float = Field(gt=0, allow_inf_nan=False)
    usd_low: float | None = None
    usd_high: float | None = None


class StateSettings(BaseModel):
    """What a job says of the state of its items."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    snapshot_seconds: float = Field(default=60, ge=1, le=86_400)
    """Least seconds between two snapshots, except at a notice and at the end."""
    notice_signal: Literal["TERM", "USR1", "none"] = "TERM"
    """What tells the program that its machine goes; it is killed when only saving is left to do."""
    max_gib: float = Field(default=50, gt=0, le=4096)
    """What a state folder may hold, in GiB."""
    from_job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)] | None = None
    """The job whose state an item begins with while it has saved none of its own."""
    from_item: int | None = Field(default=None, ge=0)
    """Which of that job's items; None for the one of the same index."""


class JobSpec(BaseModel):
    """What a job is: `jobs/<job>/job.json`, written once and never changed.

    Readers ignore keys that they do not know; a ``spec_version`` newer than theirs is refused. Build one from a
    caller's values with `build_spec`, which turns every mistake into a `CallerError`.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    spec_version: int = Field(default=1, ge=1, le=SPEC_VERSION)
    job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    queue: Annotated[str, StringConstraints(min_length=1)]
    image: Annotated[str, StringConstraints(min_length=1)] = "default"
    image_ref: str | None = None
    """The image itself, as the stack had pinned it at the submit."""
    command: list[str] | None = Field(default=None, min_length=1)
    function: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    resources: Resources = Field(default_factory=lambda: Resources.model_validate({}))
    output: str | None = Field(default=None, pattern=r"^[a-z][a-z0-9+.-]*://.+$")
    attempts: int = Field(default=3, ge=1, le=10)
    timeout_seconds: float = Field(default=3600, ge=1, le=LONGEST_SECONDS)
    slots: int = Field(default=1, ge=1, le=1024)
    stage_input: bool | None = None
    env: dict[str, str] = Field(default_factory=dict)
    code: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the folder of code that it was submitted with; a retry's round may name another."""
    placeholders: list[str] = Field(default_factory=list)
    """Keys of the items' metadata that the command may name in braces, from version 4 on."""
    layout: Literal["sagemaker"] | None = None
    """Whose variables and folders the program finds besides ours, from version 4 on."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """Regular expressions for the numbers that the program prints, by name, from version 4 on."""
    keep_values: bool = False
    """True for a function, from version 4 on. Older workers drop values that are not short JSON without it."""
    code_origin: str | None = None
    """The commit of a repository that the code is, for people."""
    tags: dict[str, str] = Field(default_factory=dict)
    """For the cloud's cost reports."""
    pip_index: str | None = Field(default=None, pattern=r"^https?://\S+$")
    wheelhouse: str | None = Field(default=None, pattern=r"^(s3|gs|file)://.+$")
    expected: Expected | None = None
    """What it was expected to take, where the submit knew."""
    limit: CostLimit | None = None
    """What it may cost, from version 2 on; a later round may raise it."""
    inputs: dict[Annotated[str, StringConstraints(pattern=INPUT_PATTERN)], str] = Field(default_factory=dict)
    """Named inputs, which each machine fetches once, by URI (see `tidemill.inputs`), from version 4 on."""
    max_parallel: int | None = Field(default=None, ge=1, le=MAX_CHUNKS)
    """Items that may run at once, from version 4 on: the job has at most so many chunks, and a worker runs the items of
    each one after the other."""
    after: list[After] = Field(default_factory=list, max_length=MAX_AFTER)
    """Jobs that must be complete before its first item runs, from version 4 on."""
    state: StateSettings | None = None
    """Whether its items have state, from version 4 on."""
    notify: Told | None = None
    """Who is told when it ends, from version 5 on."""
    chunk_size: int = Field(ge=1, le=MAX_CHUNK_ITEMS)
    items_total: int = Field(ge=1)
    chunks_total: int = Field(ge=1, le=MAX_CHUNKS)
    manifest: str | None = None
    """SHA-256 of the manifest's index; version 0.1 did not write it."""
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    user: str = "unknown"
    tidemill_version: str = __version__

    @model_validator(mode="after")
    def _what_to_run(self) -> JobSpec:
        if (self.command is None) == (self.function is None):
            raise ValueError("exactly one of command and function")
        return self

    @model_validator(mode="after")
    def _how_long(self) -> JobSpec:
        if self.timeout_seconds > LONGEST_STATELESS_SECONDS and self.state is None:
            raise ValueError("timeout_seconds without state")
        return self

    def output_prefix(self, store_uri: str) -> str:
        """URI under which outputs go, without a trailing slash: the user's, or ``<store>/out/<job>``."""
        return (self.output or f"{store_uri.rstrip('/')}/{layout.out(self.job)}").rstrip("/")

    @property
    def names_output_uri(self) -> bool:
        """Whether the command writes outputs itself, so that it is unknown which there should be."""
        return any("{output_uri}" in word or "TIDEMILL_OUTPUT_URI" in word for word in self.command or [])

    @property
    def stages_input(self) -> bool:
        """Whether items are fetched: as the spec says, or because the command names the local copy."""
        if self.stage_input is not None:
            return self.stage_input
        return any(_STAGED.search(word) for word in self.command or [])


SINCE = {
    "limit": 2,
    "placeholders": 4,
    "inputs": 4,
    "max_parallel": 4,
    "layout": 4,
    "after": 4,
    "metrics": 4,
    "keep_values": 4,
    "state": 4,
    "notify": 5,
}
"""By field: the spec version from which on workers know it."""


def spec_version(fields: Mapping[str, Any]) -> int:
    """The spec version of a job with these fields: the oldest whose workers do everything that they ask for."""
    return max((version for field, version in SINCE.items() if fields.get(field)), default=1)


def new_job_id(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}"


# ---- a caller's values ------------------------------------------------------------------------------------------

# Key: (what is allowed, what to do). Keys that a caller cannot set are not here.
_HELP: dict[str, tuple[str, str]] = {
    "job": ("an id, <name>-<8 hex digits>", "Leave it out: it is made from the name."),
    "name": ("a letter a-z, then up to 40 of a-z, 0-9 and '-'", "Choose another name."),
    "queue": ("a queue of the pipeline", "Name one of those that `tidemill queues` shows."),
    "image": ("the name of an image of the queue", "Name one of those that `tidemill queues` shows."),
    "command": ("a list of at least one non-empty word, without NUL bytes", "Give the program after `--`."),
    "function": ("module:function", "Name an importable function, such as `features:extract`."),
    "resources": ("cpus above 0, memory_mib at least 64, gpus at least 0", "State what one item needs."),
    "resources.cpus": ("a number above 0", "State the cores of one item."),
    "resources.memory_mib": ("a whole number of MiB, at least 64", "State the memory of one item in MiB."),
    "resources.gpus": ("a whole number, at least 0", "0 means none."),
    "output": ("a URI such as s3://bucket/prefix", "Give a URI, or leave it out for <store>/out/<job>."),
    "attempts": ("a whole number from 1 to 10", "It is how often an item is tried; 1 means once."),
    "timeout_seconds": (
        "from 1 to 604800 seconds, with state to 2419200",
        "It limits one attempt of an item; it cannot be unlimited.",
    ),
    "state": ("settings: snapshot_seconds, notice_signal, max_gib", "Leave it out for items without state."),
    "state.snapshot_seconds": ("from 1 to 86400 seconds", "It is the least time between two snapshots."),
    "state.notice_signal": ("TERM, USR1 or none", "It tells the program that its machine goes."),
    "state.max_gib": ("a number of GiB above 0, at most 4096", "It limits what a state folder holds."),
    "slots": ("a whole number from 1 to 1024", "It is how many items run side by side in one container."),
    "stage_input": ("true, false or nothing", "Leave it out: it follows from the command."),
    "env": ("names made of letters, digits and '_', with text values", "Give a text by each name (--env NAME=VALUE)."),
    "pip_index": ("an address such as https://packages.example.com/simple", "Give the address of a package index."),
    "wheelhouse": ("a URI such as s3://bucket/wheels", "Give the URI of a prefix that holds wheels."),
    "max_parallel": (
        f"a whole number from 1 to {MAX_CHUNKS}",
        "It is how many items run at once; leave it out for all.",
    ),
    "inputs": ("names, each a letter a-z, then up to 40 of a-z, 0-9 and '_', with a URI or path", "Give NAME=SOURCE."),
    "after": (f"at most {MAX_AFTER} jobs", "Let a job in between wait for some of them."),
    "chunk_size": ("a whole number from 1 to 1000000", "It is how many items make a chunk."),
    "items_total": ("at least 1", "Give the job an item."),
    "chunks_total": (f"from 1 to {MAX_CHUNKS}", "Choose a larger chunk size."),
    "user": ("a text", "Leave it out."),
    "command or function": ("exactly one of the two", "Give a command, or a function."),
}
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def build_spec(**values: Any) -> JobSpec:
    """A spec from a caller's values of its fields. ``job`` is made from ``name`` when it is not given.

    Raises:
        CallerError: One mistake: which key, its value, what is allowed, what to do.
    """
    known = list(JobSpec.model_fields)
    for key in values:
        if key not in known:
            raise CallerError.unknown("field", key, "a job", known)
    if "job" not in values and re.match(NAME_PATTERN, str(values.get("name", ""))):
        values = {**values, "job": new_job_id(values["name"])}
    _check_words(values.get("command"))
    _check_env(values.get("env"))
    _check_index(values.get("pip_index"))
    try:
        return JobSpec.model_validate(values)
    except ValidationError as error:
        raise _caller_error(error, values) from None


def _caller_error(error: ValidationError, values: Mapping[str, Any]) -> CallerError:
    first = error.errors()[0]
    if first["type"] == "missing" and "name" in values and first["loc"] == ("job",):
        first = {**first, "loc": ("name",)}
    path = [str(part) for part in first["loc"]] or ["command or function"]
    key = ".".join(path[:2]) if ".".join(path[:2]) in _HELP else path[0]
    allowed, fix = _HELP.get(key, (first["msg"], "Correct it."))
    if path == ["command or function"]:
        value: Any = [name for name in ("command", "function") if values.get(name) is not None]
    else:
        value = _value_at(values, key)
    return CallerError.about(key, value, allowed, fix)


def _value_at(values: Any, key: str) -> Any:
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else getattr(values, part, None)
    return values


def _check_words(command: Any) -> None:
    allowed, fix = _HELP["command"]
    if command is None:
        return
    wrong = not isinstance(command, (list, tuple)) or not command or not command[0]
    if wrong or any(not isinstance(word, str) or "\0" in word for word in command):
        raise CallerError.about("command", command, allowed, fix)


def _check_env(env: Any) -> None:
    if env is None:
        return
    allowed, fix = _HELP["env"]
    if not isinstance(env, Mapping):
        raise CallerError.about("env", env, allowed, fix)
    for name, value in env.items():
        if not isinstance(name, str) or not _ENV_NAME.match(name) or not isinstance(value, str) or "\0" in value:
            raise CallerError.about(f"env.{name}", value, allowed, fix)
        if name.startswith(("TIDEMILL_", "AWS_BATCH_")):
            problem = f"env.{name}: names that begin with TIDEMILL_ or AWS_BATCH_ are reserved."
            raise CallerError(problem, "Rename it.", what=f"env.{name}")
        if secrecy.NAME.search(name) or secrecy.VALUE.search(value):
            raise CallerError(
                f"env.{name} looks like a secret, and a job's environment is stored in clear text.",
                secrecy.INSTEAD,
            )


def _check_index(address: Any) -> None:
    if isinstance(address, str) and "@" in address.partition("://")[2].partition("/")[0]:
        raise CallerError(
            "pip_index holds a login, and a job's settings are stored in clear text.",
            "Use an index that needs none, or a wheelhouse in the store.",
        )
