"""A job: its spec and its items. Everything else in the package may import this."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tidemill import layout
from tidemill.descriptor import SPEC_VERSION, NotifyTarget, Resources
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
BUCKET_PATTERN = r"^s3://[A-Za-z0-9][\w.-]*$"
INPUT_PATTERN = r"^[a-z][a-z0-9_]{0,40}$"
_STAGED = re.compile(r"\{input\}|TIDEMILL_INPUT(?![A-Z0-9_])")
ITEM_TYPE_PATTERN = r"^(json|tuple|arguments|file|[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)$"
TRIGGER_PATTERN = r"^(hand|(schedule|arrivals) [a-z][a-z0-9-]{0,40})$"
JOB_PATTERN = r"^[a-z][a-z0-9-]{0,40}-[0-9a-f]{8}$"


@dataclass(frozen=True, slots=True)
class Item:
    """One unit of a user's work."""

    index: int
    """Position in the job, from 0."""
    uri: str
    """The user's name for it: a URI, a path, or any text that the program understands."""
    meta: Mapping[str, Any] | None = None
    """Values that the user attached to the item, or None."""


class CostLimit(BaseModel):
    """A job's cost limit. The cost is estimated from the seconds that items hold their share of a machine, at a price
    that the submit writes down.
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


class Predecessor(BaseModel):
    """Another job that must be complete before a job's first item runs."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    success: bool = False
    """True if all of its items must have succeeded, too."""


class Expectation(BaseModel):
    """The submit's expectations of the job, for its report."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    item_seconds: float = Field(gt=0, allow_inf_nan=False)
    usd_low: float | None = None
    usd_high: float | None = None


class StateSettings(BaseModel):
    """A job's settings for the state of its items."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    snapshot_seconds: float = Field(default=60, ge=1, le=86_400)
    """Least seconds between two snapshots, except at a notice and at the end."""
    notice_signal: Literal["TERM", "USR1", "none"] = "TERM"
    """Signal that tells the program of its machine's end; it is killed when only saving is left to do."""
    max_gib: float = Field(default=50, gt=0, le=4096)
    """Largest size of a state folder, in GiB."""
    from_job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)] | None = None
    """The job whose state an item begins with while it has saved none of its own."""
    from_item: int | None = Field(default=None, ge=0)
    """Which of that job's items; None for the one of the same index."""


class SharedWith(BaseModel):
    """Outcomes that a job shares with earlier ones."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    document: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the document that says which they are (`tidemill.ledger.shared`)."""
    jobs: dict[Annotated[str, StringConstraints(pattern=JOB_PATTERN)], Annotated[int, Field(ge=1)]]
    """How many are of each job, the most first."""


class SentBy(BaseModel):
    """The send of a template that made a job."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    template: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    version: int = Field(ge=1)
    """The template's."""
    trigger: str = Field(pattern=TRIGGER_PATTERN)
    """`schedule NAME`, `arrivals NAME`, or `hand`."""
    time: datetime
    """The time that the send is for; of arrivals, when they were taken."""
    number: int | None = None
    """Of the arrivals."""
    saved_by: str = ""
    """Who saved that version."""
    mark: str = Field(default="", exclude=True)
    """Of the send's first note, which jobs cannot read: none can write down a job of that id before the sender does."""

    @property
    def occasion(self) -> str:
        """The mark of one send: there is one job of it at most."""
        which = self.time.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ") if self.number is None else self.number
        return f"{self.template}/{self.trigger}/{which}"

    def words(self) -> str:
        """`schedule nightly, template tiles@3, saved by ada`."""
        return f"{self.trigger}, template {self.template}@{self.version}, saved by {self.saved_by or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Part:
    """Mark of a field: the spec version from which on workers know it, and whether jobs that differ in it are different
    jobs. A job without a field of a later version keeps the id that it has always had."""

    since: int = 1
    identity: bool = True


class JobSpec(BaseModel):
    """A job's spec: `jobs/<job>/job.json`, written once and never changed.

    Readers ignore keys that they do not know; a ``spec_version`` newer than theirs is refused. Build one from a
    caller's values with `tidemill.client.plan.spec.build_spec`, which turns every mistake into a `CallerError`.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    spec_version: int = Field(default=1, ge=1, le=SPEC_VERSION)
    job: Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN), Part()]
    queue: Annotated[str, StringConstraints(min_length=1), Part()]
    image: Annotated[str, StringConstraints(min_length=1), Part()] = "default"
    market: Literal["spot", "on_demand"] | None = None
    """The market of its machines; None for what its queue has."""
    image_ref: str | None = None
    """The image itself, as the stack had pinned it at the submit."""
    command: Annotated[list[str] | None, Part()] = Field(default=None, min_length=1)
    function: Annotated[str | None, Part()] = Field(default=None, pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
    resources: Annotated[Resources, Part()] = Field(default_factory=lambda: Resources.model_validate({}))
    memory_max_mib: Annotated[int | None, Part(since=8)] = Field(default=None, ge=64)
    """The most memory of an item: one that is killed for memory is tried again with twice as much, up to this."""
    start_within_seconds: Annotated[float | None, Part(since=8, identity=False)] = Field(
        default=None, ge=60, le=LONGEST_SECONDS
    )
    """The job ends if no worker has begun with it after so long."""
    output: Annotated[str | None, Part()] = Field(default=None, pattern=r"^[a-z][a-z0-9+.-]*://.+$")
    attempts: Annotated[int, Part()] = Field(default=3, ge=1, le=10)
    timeout_seconds: Annotated[float, Part()] = Field(default=3600, ge=1, le=LONGEST_SECONDS)
    slots: Annotated[int, Part()] = Field(default=1, ge=1, le=1024)
    stage_input: bool | None = None
    env: Annotated[dict[str, str], Part()] = Field(default_factory=dict)
    secrets: Annotated[list[str], Part(since=7)] = Field(default_factory=list)
    """Names of personal secrets that its programs find as variables. Their values are never in the store."""
    secret_store: Annotated[str | None, Part(since=7, identity=False)] = None
    """The name of the cloud's secret that holds them; None for this machine's."""
    code: Annotated[str | None, Part()] = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the folder of code that it was submitted with; a retry's round may name another."""
    placeholders: Annotated[list[str], Part(since=4)] = Field(default_factory=list)
    """Keys of the items' metadata that the command may name in braces."""
    layout: Annotated[Literal["sagemaker"] | None, Part(since=4)] = None
    """Whose variables and folders the program finds besides ours."""
    metrics: Annotated[dict[str, str], Part(since=4)] = Field(default_factory=dict)
    """Regular expressions for the numbers that the program prints, by name."""
    keep_values: Annotated[bool, Part(since=4)] = False
    """True for a function. Older workers drop values that are not short JSON without it."""
    item_type: Annotated[str | None, Part(since=6)] = Field(default=None, pattern=ITEM_TYPE_PATTERN)
    """How a function's argument is made of an item's text, which is JSON: as it is (`json`), as a tuple, as several
    arguments (`arguments`), or as an object of a class, `module:class`. With `file`, the text names a file that holds
    it. None for the text itself."""
    code_origin: str | None = None
    """The commit of a repository that the code is, for people."""
    tags: dict[str, str] = Field(default_factory=dict)
    """For the cloud's cost reports."""
    pip_index: Annotated[str | None, Part()] = Field(default=None, pattern=r"^https?://\S+$")
    wheelhouse: Annotated[str | None, Part()] = Field(default=None, pattern=r"^(s3|gs|file)://.+$")
    expected: Expectation | None = None
    """Expected time and cost, where the submit knew them."""
    limit: Annotated[CostLimit | None, Part(since=2, identity=False)] = None
    """Its cost limit; a later round may raise it."""
    inputs: Annotated[dict[Annotated[str, StringConstraints(pattern=INPUT_PATTERN)], str], Part(since=4)] = Field(
        default_factory=dict
    )
    """Named inputs, which each machine fetches once, by URI (see `tidemill.inputs`)."""
    public: Annotated[
        list[Annotated[str, StringConstraints(pattern=BUCKET_PATTERN)]], Part(since=8, identity=False)
    ] = Field(default_factory=list)
    """Buckets of its items that no grant covers, and that workers read as the public sees them."""
    max_parallel: Annotated[int | None, Part(since=4)] = Field(default=None, ge=1, le=MAX_CHUNKS)
    """Items that may run at once: the job has at most so many chunks, and a worker runs the items of each one after the
    other."""
    after: Annotated[list[Predecessor], Part(since=4)] = Field(default_factory=list, max_length=MAX_AFTER)
    """Jobs that must be complete before its first item runs."""
    state: Annotated[StateSettings | None, Part(since=4)] = None
    """Settings of its items' state, where they have any."""
    notify: Annotated[NotifyTarget | None, Part(since=5, identity=False)] = None
    """Who is told when it ends."""
    shared: Annotated[SharedWith | None, Part(since=7, identity=False)] = None
    """Outcomes of earlier jobs that are its own, too."""
    sent_by: SentBy | None = None
    """The send that made it, where a template did. Workers need not know."""
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

    def with_memory(self, memory_mib: int | None) -> JobSpec:
        """The spec as it is in a round whose items get another amount of memory; None for the job's own. A container
        stays as large as it is, as far as it can: it has fewer slots."""
        if memory_mib in (None, self.resources.memory_mib):
            return self
        slots = max(1, min(self.slots, self.slots * self.resources.memory_mib // memory_mib))
        resources = self.resources.model_copy(update={"memory_mib": memory_mib})
        return self.model_copy(update={"resources": resources, "slots": slots})

    @property
    def names_output_uri(self) -> bool:
        """True if the command writes outputs itself, so that it is unknown which there should be."""
        return any("{output_uri}" in word or "TIDEMILL_OUTPUT_URI" in word for word in self.command or [])

    @property
    def stages_input(self) -> bool:
        """True if items are fetched: as the spec says, or because the command names the local copy."""
        if self.stage_input is not None:
            return self.stage_input
        return any(_STAGED.search(word) for word in self.command or [])


PARTS = {
    name: part for name, field in JobSpec.model_fields.items() for part in field.metadata if isinstance(part, Part)
}


def spec_version(fields: Mapping[str, Any]) -> int:
    """The spec version of a job with these fields: the oldest whose workers do everything that they ask for."""
    return max((part.since for field, part in PARTS.items() if fields.get(field)), default=1)


def new_job_id(name: str) -> str:
    return f"{name}-{secrets.token_hex(4)}"
