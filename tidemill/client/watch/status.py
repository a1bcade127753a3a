"""A job in numbers, and the figures of a job that has ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from tidemill.client.plan.limit import LimitUse
from tidemill.client.report.consumption import Consumption
from tidemill.client.report.html import table
from tidemill.client.watch.saved_state import SavedState
from tidemill.completion import SUBMIT_AGAIN
from tidemill.explain import Reason
from tidemill.figures import counted, duration, origins_words
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Listing, RetryProgress
from tidemill.ledger.gate import UnfinishedJob
from tidemill.ledger.outcome_sources import OutcomeSources, ended_chunks
from tidemill.manifest import ManifestIndex
from tidemill.request import with_flags

State = Literal["waiting", "running", "succeeded", "failed", "cancelled", "lost", "paused"]
SPEED_SECONDS = 600.0
_PARALLEL = 16
_AT_ONCE = 1024


@dataclass(frozen=True)
class Chunks:
    """Chunks by what is happening to them; `waiting` and `running` are the cloud's figures and may lag."""

    total: int
    done: int
    waiting: int = 0
    running: int = 0
    lost: list[int] = field(default_factory=list)
    """Chunks without a record that the cloud will not deliver again."""
    dead: list[int] = field(default_factory=list)
    """Those of them that are dead letters: delivered as often as the queue allows."""


@dataclass(frozen=True)
class Status:
    """Status of a job's items so far.

    Attributes:
        state: `waiting` for machines, `running`; `succeeded` or `failed` when every item has an outcome (`failed` when
            any has failed); `cancelled`; `lost` when the rest will not be delivered; `paused` when no run works on a
            local job.
        remaining: Items without an outcome.
        reclaims: Deliveries that a reclaim ended.
        note: Remark for people: the cloud's reason, why the code does not start, who cancelled.
        start_failures: Runs of the user's code that never started.
        items_a_second: Over the last minutes; None when nothing ended in them, or the job has ended.
        seconds_left: At that speed.
        consumption: Resources that items take, from a sample of records; None without a sample, or where not asked for.
        suggestion: A better request, where the job's request and its consumption differ much.
        fleet_errors: Errors of a day of machines that could not run their worker, and what keeps machines from coming:
            stockouts, quotas, a reconciler that does not run.
        run_command: The command that continues a local job, when no run works on it.
        spent: Its consumption of its limit; None for a job without one.
        waits_for: Jobs that must be complete before its first item runs, while they are not.
        saved: How much of the state of its items is saved; None without state, and where it was not asked for.
        again: Items that run again and keep their outcome until there is a new one; None where none do.
        final: No command lets it go on: it is cancelled, and a job that it waits for is gone.
        told: Those who asked for it were told of its end; None while it has not ended, and where no one asked.
        shared: Items that an earlier job has computed; they are among those that succeeded.
        origins: How many of them are of each job, as the submit found them.
        first_item_seconds: How long it waited for its first item, since the submit or since the jobs were complete that
            it waited for; None while none has started, and where it was not asked for.
        explained: Why it does not progress, when nothing was committed for five minutes; see `Job.explain`.
    """

    job: str
    state: State
    items: int
    succeeded: int
    failed: int
    remaining: int
    chunks: Chunks
    reclaims: int
    rounds: int
    note: str | None = None
    start_failures: int = 0
    items_a_second: float | None = None
    seconds_left: float | None = None
    consumption: Consumption | None = None
    suggestion: str | None = None
    fleet_errors: list[str] = field(default_factory=list)
    run_command: str | None = None
    again: RetryProgress | None = None
    spent: LimitUse | None = None
    waits_for: list[UnfinishedJob] = field(default_factory=list)
    saved: SavedState | None = None
    explained: Reason | None = None
    told: str | None = None
    final: bool = False
    shared: int = 0
    origins: dict[str, int] = field(default_factory=dict)
    first_item_seconds: float | None = None

    @property
    def progress(self) -> tuple[int, int]:
        """Items that have ended, and of how many. While nothing but a retry runs, those of the retry."""
        if self.again is None:
            return self.succeeded + self.failed, self.items
        if not self.remaining:
            return self.again.ended, self.again.items
        return self.succeeded + self.failed - (self.again.items - self.again.ended), self.items

    @property
    def ended(self) -> bool:
        """True if nothing will change by itself."""
        return self.state not in ("waiting", "running")

    @property
    def state_words(self) -> str:
        """The state for people, who ask how much has failed."""
        return f"failed, {self.failed} of {counted(self.items, 'item')}" if self.state == "failed" else self.state

    @property
    def exit_code(self) -> int:
        """1 when items have failed, or will not get the outcome that was asked for."""
        return 1 if self.failed or self.state in ("cancelled", "lost", "paused") else 0

    def to_json(self) -> dict[str, Any]:
        """Stable keys; advice has the flags of the command line."""
        explained = self.explained and asdict(self.explained) | {"do": with_flags(self.explained.do)}
        suggestion = self.suggestion and with_flags(self.suggestion)
        return asdict(self) | {"ended": self.ended, "explained": explained, "suggestion": suggestion}

    def continued_by(self, where: str = "") -> str | None:
        """Command that continues a cancelled job, or one that no local run works on. `where` names its pipeline if
        needed."""
        if self.final:
            return None
        if self.state != "cancelled":
            return self.run_command
        if (self.note or "").endswith(SUBMIT_AGAIN):
            return None
        command = f"tidemill resume {self.job}{where}"
        if self.spent and self.spent.reached:
            return f"{command} --max-usd USD, more than {self.spent.max_usd:g}"
        return command

    def facts(self) -> dict[str, object]:
        chunks = self.chunks
        words = [f"{chunks.done} of {chunks.total} done", f"{chunks.running} running", f"{chunks.waiting} waiting"]
        table: dict[str, object] = {
            "job": self.job,
            "state": self.state_words,
            "items": self.items,
            **self.shared_facts(),
            "succeeded": self.succeeded,
            "failed": self.failed,
            "remaining": self.remaining,
            **self._again(),
            "chunks": words[0] if self.run_command else ", ".join(words),
        }
        if not self.run_command:
            table["reclaims"] = self.reclaims
        if self.first_item_seconds is not None:
            table["first item"] = f"after {duration(self.first_item_seconds)}"
        if self.spent:
            table["cost"] = self.spent.words()
        if self.items_a_second:
            left = f", about {duration(self.seconds_left)} left" if self.seconds_left else ""
            table["speed"] = f"{self.items_a_second:.3g} items/s{left}"
        for part in (self.consumption, self.saved):
            table |= part.facts() if part else {}
        if self.suggestion:
            table["suggestion"] = with_flags(self.suggestion)
        for number, error in enumerate(self.fleet_errors):
            table["fleet" + f" {number + 1}" * (number > 0)] = error
        if command := self.continued_by():
            table["continue"] = command
        else:
            lost = [chunk for chunk in chunks.lost if chunk not in chunks.dead]
            if chunks.dead:
                words = f"{_some(chunks.dead)}: `tidemill retry {self.job} --dead` puts them back"
                table["dead letters"] = f"{len(chunks.dead)} {words}"
            if lost:
                table["lost"] = f"{len(lost)} deliveries {_some(lost)}: `tidemill resume {self.job}` repairs that"
        if self.failed:
            table["failures"] = f"tidemill failures {self.job}; `tidemill retry {self.job} --failed` runs them again"
        return table | self._why() | ({"notify": self.told} if self.told else {})

    def shared_facts(self) -> dict[str, object]:
        """`19,990 of words-a17f8d72, 10 of this job`."""
        return {"shared": origins_words(self.origins, self.items)} if self.origins else {}

    def _repr_html_(self) -> str:
        """The facts as a table, which a notebook shows."""
        head, *rows = self.facts().items()
        return table([str(cell) for cell in head], [(name, str(value)) for name, value in rows])

    def _why(self) -> dict[str, object]:
        """The last lines: why it does not progress, and what else a person should know."""
        why: dict[str, object] = (
            {"why": f"{self.explained.line}; `tidemill explain {self.job}`"} if self.explained else {}
        )
        return why | ({"note": self.note} if self.note else {})

    def _again(self) -> dict[str, object]:
        if self.again is None:
            return {}
        failed = f", {self.again.failed} failed again" if self.again.failed else ""
        return {"run again": f"{self.again.ended} of {self.again.items} ended{failed} (round {self.again.since})"}


def _some(chunks: Sequence[int]) -> str:
    return f"(chunks {', '.join(map(str, chunks[:10]))}{', ...' if len(chunks) > 10 else ''})"


def items_a_second(listing: Listing, index: ManifestIndex) -> float | None:
    """The speed of the last ten minutes, from the times of records; None when too few ended."""
    rounds = {round_.round: round_ for round_ in listing.rounds}
    return speed_of(
        (at, rounds[r].size(chunk, index)) for r, done in listing.done.items() for chunk, at in done.items()
    )


def speed_of(ended: Iterable[tuple[float, float]]) -> float | None:
    """The same from the time and the items of each record."""
    records = sorted(ended)
    # The times are the store's, and this machine's clock may be slow.
    now = max([time.time(), *(at for at, _ in records[-1:])])
    recent = [(at, size) for at, size in records if at >= now - SPEED_SECONDS]
    # The first item to end began before this time, unless another one ended before that.
    first = 0 if len(recent) < len(records) else 1
    since = now - SPEED_SECONDS if first == 0 else (recent[0][0] if recent else now)
    items = sum(size for _, size in recent[first:])
    return items / max(now - since, 0.001) if items else None


@dataclass(frozen=True)
class Summary:
    """The figures of a job, added up from its outcomes.

    Attributes:
        attempts: Attempts of items that ran to their end. Those of shared outcomes are not among them, nor their times.
        reclaims: Deliveries that a reclaim ended.
        cpu_seconds: Of the attempts that decided.
        wall_seconds: From the submit to the last record.
        peak_memory_mib: The largest of any item.
        outputs: Items that have written files to their output folder.
    """

    succeeded: int
    failed: int
    attempts: int
    reclaims: int
    cpu_seconds: float
    wall_seconds: float
    peak_memory_mib: float
    outputs: int = 0

    def to_json(self) -> dict[str, Any]:
        """Stable keys."""
        return asdict(self)


def summarise(ledger: Ledger, spec: JobSpec, status: Status | None) -> Summary:
    """Read every record of a job once, and the progress of chunks without one, and add up. Memory does not grow with
    the job."""
    ended = ended_chunks(ledger.store, ledger.job, ledger.rounds(), ledger.done_at)
    seen = status or ledger.counts()
    total = Summary(seen.shared, 0, 0, seen.reclaims, 0.0, 0.0, 0.0)
    # A folder answers at once: there only the reading of lines takes time, and records would pile up in memory.
    with ThreadPoolExecutor(_PARALLEL if ledger.store.is_object_store else 1) as pool:
        chunks = list(ended)
        for start in range(0, len(chunks), _AT_ONCE):
            some = chunks[start : start + _AT_ONCE]
            for part in pool.map(lambda chunk: _summary_of(ledger, spec, chunk, ended[chunk]), some):
                total = _together(total, part)
    cpu, wall, peak = round(total.cpu_seconds, 3), round(total.wall_seconds, 3), round(total.peak_memory_mib, 1)
    return replace(total, cpu_seconds=cpu, wall_seconds=wall, peak_memory_mib=peak)


def _together(one: Summary, other: Summary) -> Summary:
    largest = {key: max(getattr(one, key), getattr(other, key)) for key in ("wall_seconds", "peak_memory_mib")}
    summed = {each.name: getattr(one, each.name) + getattr(other, each.name) for each in fields(Summary)}
    return Summary(**(summed | largest))


def _summary_of(ledger: Ledger, spec: JobSpec, chunk: int, ended: OutcomeSources) -> Summary:
    """The figures of a chunk: later outcomes replace earlier ones."""
    records = [record for number in ended.rounds if (record := ledger.chunk(number, chunk).committed())]
    by_index = {outcome.index: outcome for record in records for outcome in record.outcomes}
    if ended.unfinished is not None:
        by_index |= {outcome.index: outcome for outcome in ledger.computed(chunk, (), ended.unfinished)}
    outcomes = by_index.values()
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    return Summary(
        succeeded=len(outcomes) - failed,
        failed=failed,
        attempts=sum(outcome.attempts for outcome in outcomes),
        reclaims=0,
        cpu_seconds=sum(outcome.cpu_seconds for outcome in outcomes),
        # By the cloud's clock, as the submit: a machine's own may differ. Some stores know whole seconds only.
        wall_seconds=max(ended.at - spec.created_at.timestamp(), 0.0),
        peak_memory_mib=max((outcome.peak_memory_mib for outcome in outcomes), default=0.0),
        outputs=sum(outcome.output is not None for outcome in outcomes),
    )
