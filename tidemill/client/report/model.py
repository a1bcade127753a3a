"""The report of a job: the document of `tidemill report --json`, and the data of its page."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Distribution:
    """A measure over all items that ran. Items that ran in several rounds count in each.

    Attributes:
        items: Items with a value.
        mean: Their exact mean.
        p50: Quantiles are within 2 %.
        p90: See `p50`.
        p95: See `p50`.
        p99: See `p50`.
        max: The exact largest value.
        asked: What the job asked for an item; None where it does not ask.
        bars: Lower bound, upper bound and items of each bar, smallest values first.
    """

    items: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float
    asked: float | None
    bars: list[tuple[float, float, int]]


@dataclass(frozen=True)
class Timeline:
    """The job in equal steps of time, by the clocks of the workers that committed chunks.

    Attributes:
        start: Beginning of the first step, ISO 8601.
        step_seconds: Length of a step.
        succeeded: Items that a step's records say succeeded.
        failed: Items that they say failed.
        reclaims: Attempts on chunks that a reclaim ended.
        slots: By kind of machine: slots that were busy, on average over the step.
        machines: Machines between their first lease and their last commit; None where workers do not know theirs.
    """

    start: str
    step_seconds: float
    succeeded: list[int]
    failed: list[int]
    reclaims: list[int]
    slots: dict[str, list[float]]
    machines: list[int] | None


@dataclass(frozen=True)
class Place:
    """Machines of one type, zone and market. Null is unknown.

    Attributes:
        machines: How many there were; None where workers do not know their names.
        slot_hours: Hours for which slots were held by attempts that committed.
    """

    type: str | None
    zone: str | None
    market: str | None
    machines: int | None
    chunks: int
    items: int
    failed: int
    slot_hours: float


@dataclass(frozen=True)
class SlowItem:
    """One of the slowest items, of the three slowest of each chunk."""

    item: int
    seconds: float
    attempts: int
    type: str | None
    zone: str | None


@dataclass(frozen=True)
class FailedGroup:
    """Failed items with the same message; see `tidemill failures`.

    Attributes:
        first_at: When the first record with one of them was committed, ISO 8601.
        last_at: The same of the last one.
        places: Machine types and zones, most frequent first.
    """

    id: str
    count: int
    reason: str | None
    exit_code: int | None
    message: str
    items: list[int]
    first_at: str | None
    last_at: str | None
    places: list[str]


@dataclass(frozen=True)
class FailureSummary:
    """A job's failures.

    Attributes:
        groups: Largest first.
        chunks: Chunks with failed items.
        chunks_read: Those that were read. Where they are fewer, counts of groups are scaled up.
    """

    groups: list[FailedGroup]
    chunks: int
    chunks_read: int


@dataclass(frozen=True)
class SlotUse:
    """Use of the held slots, in hours. `other` is the start of programs, earlier attempts, and waits between items."""

    held: float
    work: float
    fetch: float
    upload: float
    other: float


@dataclass(frozen=True)
class CostLine:
    """Cost of one kind of machine: its slots' share of it while they were held, in USD. `on_demand` leaves out the
    hours that reclaims lost."""

    type: str
    market: str
    slot_hours: float
    low: float
    high: float
    on_demand: float | None


@dataclass(frozen=True)
class ReclaimLoss:
    """Attempts on chunks that reclaims ended, on machines of one type and market; null is unknown.

    Attributes:
        reclaims: How many attempts.
        held_hours: Hours for which they held slots.
        lost_hours: Those of them that led to no outcome. An item with state continues from its last snapshot all the
            same.
    """

    type: str | None
    market: str | None
    reclaims: int
    held_hours: float
    lost_hours: float


@dataclass(frozen=True)
class Cost:
    """Cost of a job by the price table, in USD.

    Attributes:
        low: At the lowest prices that were seen of each machine.
        high: At the highest.
        on_demand: The same on On-Demand machines, which lose no hours to reclaims; None where a price is unknown.
        unpriced_hours: Slot-hours on machines that are unknown or without a price; they are not in the sums.
        as_of: Date of the oldest price.
        sources: Where the prices are from.
        emulated: No cloud was paid.
        lines: By kind of machine.
    """

    low: float
    high: float
    on_demand: float | None
    unpriced_hours: float
    as_of: str | None
    sources: list[str]
    emulated: bool
    lines: list[CostLine]


@dataclass(frozen=True)
class ReportedExpectation:
    """Expectations of `submit`, where it knew how long an item takes."""

    item_seconds: float
    usd_low: float | None
    usd_high: float | None


@dataclass(frozen=True)
class Advice:
    """Something to do differently the next time.

    Attributes:
        rule: `memory`, `cpus`, `chunk`, `staging`.
        flag: What to type, such as `--memory 512`.
        text: Why, with the figures.
    """

    rule: str
    flag: str
    text: str

    @property
    def keyword(self) -> str:
        """The same in Python: `memory_mib=512`."""
        flag, _, value = self.flag.partition(" ")
        return f"{flag.removeprefix('--').replace('-', '_').replace('memory', 'memory_mib')}={value}" if value else ""


@dataclass(frozen=True)
class MetricCurve:
    """A metric of an item, thinned.

    Attributes:
        points: Its steps, or how many values it was where the job's expression has no step, and the finite values.
    """

    item: int
    uri: str
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class MetricCurves:
    """A metric over the steps of a few items: from the lowest last value to the highest, evenly over the items.

    Attributes:
        items: Items with a value that were read: those of at most 64 chunks.
        steps: True if the values have steps.
    """

    name: str
    items: int
    steps: bool
    curves: list[MetricCurve]


@dataclass(frozen=True)
class JobReport:
    """A job as its report shows it. Counts are exact; distributions describe executions that were committed.

    Attributes:
        state: As in `tidemill status`.
        cloud: `aws`, `gcp` or `local`.
        emulated: Whether localcloud imitated that cloud.
        as_of: When the job was read, ISO 8601.
        ended_at: When its last outcome was written; None while anything of it is open.
        reclaims: Attempts on chunks that a reclaim ended.
        executions: Items in all committed records, and those that have ended in chunks without one: more than `items`
            after a retry.
        slots: Items that run side by side in a container.
        tries: Items that succeeded or failed at their first, second and a later attempt.
        reasons: Failed executions by their reason.
        records: Records that were read.
        first_item_seconds: How long it waited for its first item; see `Status`.
        note: The most urgent remark of `tidemill status`.
        headline: The first cause that `tidemill explain` gives; None of a job that has ended.
        origins: How many outcomes are shared with each earlier job. Times, machines and costs are of the others.
    """

    job: str
    name: str
    queue: str
    user: str
    state: str
    cloud: str
    region: str
    emulated: bool
    as_of: str
    created_at: str
    ended_at: str | None
    wall_seconds: float
    items: int
    succeeded: int
    failed: int
    remaining: int
    chunks: int
    chunks_done: int
    chunk_size: int
    slots: int
    rounds: int
    reclaims: int
    executions: int
    records: int
    command: list[str]
    versions: list[str]
    asked_cpus: float
    asked_memory_mib: int
    asked_gpus: int
    note: str | None
    headline: str | None
    timeline: Timeline | None
    wall: Distribution | None
    chunk_seconds: Distribution | None
    cores: Distribution | None
    memory_mib: Distribution | None
    gpu_memory_mib: Distribution | None
    gpu_percent: Distribution | None
    tries: list[int]
    reasons: dict[str, int]
    places: list[Place]
    slowest: list[SlowItem]
    failing: FailureSummary
    slot_use: SlotUse | None
    reclaimed: list[ReclaimLoss]
    cost: Cost | None
    estimated: ReportedExpectation | None
    first_item_seconds: float | None = None
    metrics: list[MetricCurves] = field(default_factory=list)
    origins: dict[str, int] = field(default_factory=dict)
    advice: list[Advice] = field(default_factory=list)
