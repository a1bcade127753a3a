"""A look at a job: its status from the store, the queue and the fleet, and the most urgent remark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidemill.client.health.machine_faults import fleet_words, machine_words
from tidemill.client.plan.limit import spent_of
from tidemill.client.report.consumption import Consumption, sample, suggestion
from tidemill.client.rounds.deliveries import Deliveries, known_arrays, queue_of, reconcile
from tidemill.client.rounds.memory import may_grow
from tidemill.client.rounds.predecessors import closed_gate
from tidemill.client.site import Site
from tidemill.client.watch.saved_state import look_at_state
from tidemill.client.watch.status import Chunks, State, Status, items_a_second
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Listing
from tidemill.ledger.gate import Gate, UnfinishedJob, never_begins
from tidemill.services.backend import ArrayState

if TYPE_CHECKING:
    from tidemill.explain.facts import Phase

BY_ITS_USER = "cancelled by its user"
_NO_INDEX = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|Failed to establish a new connection"
)


def observe(site: Site, ledger: Ledger, spec: JobSpec, *, consumption: bool = False) -> Observation:
    """Look at a job: its names in the store, and its arrays in the queue."""
    there = spec.queue in site.descriptor.queues
    gate = closed_gate(site, ledger, spec) if there else None
    states = known_arrays(site, spec) if there else []
    listing = ledger.listing()
    taken = sample(ledger, listing, spec.resources) if consumption else None
    if listing.counts.finished:
        return Observation(site, ledger, spec, listing, Deliveries(), "finished", taken=taken)
    deliveries = reconcile(site, ledger, spec, states, listing)
    active = deliveries.states.get("running", 0) + deliveries.states.get("starting", 0)
    state: Phase = "running" if active else "waiting"
    if listing.counts.cancelled and not deliveries.outstanding:
        state = "cancelled"
    elif not deliveries.outstanding and deliveries.lost:
        state = "lost"
    seen = Observation(site, ledger, spec, listing, deliveries, state, states, taken, fleet=consumption)
    return _waiting(seen, gate) if gate else seen


def _waiting(seen: Observation, gate: Gate) -> Observation:
    """A job that waits for others: none of its deliveries counts as lost until they are complete."""
    site, state, reason = seen.site, "waiting", gate.words()
    for other in gate.waits:
        if mend := _how_to_mend(site, other.job):
            state, reason = "lost", f"{reason}, and {mend}"
    if state == "waiting" and not site.local and seen.deliveries.lost:
        reason += f"; `tidemill wait {seen.spec.job}` enqueues it again when that is complete"
    deliveries = replace(seen.deliveries, lost=[], dead=[], reason=reason)
    return replace(seen, deliveries=deliveries, state=state, waits_for=gate.waits)


def _how_to_mend(site: Site, job: str) -> str | None:
    """Remedy for another job, so that those after it can begin; None while it runs or waits itself."""
    ledger = Ledger(site.store, job)
    try:
        status = observe(site, ledger, ledger.spec()).status()
    except CallerError as error:
        # Its queue is gone.
        return str(error).rstrip(".")
    if status.state not in ("lost", "paused"):
        return None
    if status.run_command:
        return f"no run works on it: `{status.run_command}` continues it"
    return f"the queue has lost some of its deliveries: `tidemill resume {job}` repairs that"


@dataclass(frozen=True)
class Observation:
    """A job as read at one moment; with `fleet`, the status shows the reports of its machines.

    Attributes:
        known: The queue's state of its arrays.
        taken: Resources that items take, where they were asked for.
    """

    site: Site
    ledger: Ledger
    spec: JobSpec
    listing: Listing
    deliveries: Deliveries
    state: Phase
    known: Sequence[ArrayState] = ()
    taken: Consumption | None = None
    fleet: bool = False
    waits_for: list[UnfinishedJob] = field(default_factory=list)

    @cached_property
    def newest_done(self) -> list[tuple[float, int, int]]:
        """Time, round and chunk of each record, the newest first."""
        done = self.listing.done.items()
        return sorted(((at, n, chunk) for n, each in done for chunk, at in each.items()), reverse=True)

    @cached_property
    def grows(self) -> bool:
        """True if the job has ended, and items may have more memory as soon as somebody waits."""
        return self.state == "finished" and may_grow(self.ledger, self.spec, self.listing)

    @property
    def newest_round(self) -> datetime:
        """When the newest round was sent; the job itself where there is none."""
        rounds = self.listing.rounds
        return rounds[-1].created_at if rounds else self.spec.created_at

    @property
    def idle_seconds(self) -> float:
        """How long nothing was committed, by the cloud's clock, as the times are."""
        since = max([self.newest_round.timestamp(), *(at for at, _, _ in self.newest_done[:1])])
        return self.site.account.now() - since

    def status(self) -> Status:
        counts, taken = self.listing.counts, self.taken
        rate = items_a_second(self.listing, self.ledger.index()) if self.state in ("running", "waiting") else None
        status = Status(
            job=self.spec.job,
            state=self._state_of_job(),
            items=counts.items,
            succeeded=counts.succeeded,
            failed=counts.failed,
            remaining=counts.remaining,
            chunks=Chunks(
                total=counts.chunks_total,
                done=counts.chunks_done,
                waiting=self.deliveries.states.get("waiting", 0),
                running=min(
                    self.deliveries.states.get("running", 0) + self.deliveries.states.get("starting", 0),
                    counts.chunks_total - counts.chunks_done,
                ),
                lost=self.deliveries.lost,
                dead=self.deliveries.dead,
            ),
            reclaims=counts.reclaims,
            rounds=counts.rounds,
            start_failures=counts.start_failures,
            items_a_second=rate,
            consumption=taken,
            suggestion=self._suggestion(),
            fleet_errors=fleet_words(self.site, self.spec.queue) if self.fleet and not self.site.local else [],
            note=self.note(),
            waits_for=self.waits_for,
            final=self.state == "cancelled" and never_begins(self.site.store, self.spec),
            run_command=self.site.run_command(self.spec.job) if self.state == "lost" else None,
            again=self.listing.again,
            shared=counts.shared,
            origins=self.spec.shared.jobs if self.spec.shared else {},
            spent=spent_of(self.ledger, self.spec, self.listing.rounds),
            saved=look_at_state(self.ledger, self.spec, self.listing, self.site) if self.fleet else None,
        )
        ended, items = status.progress
        return replace(status, seconds_left=round((items - ended) / rate, 1)) if rate else status

    def _suggestion(self) -> str | None:
        if self.taken is None or self.site.local:
            return None
        return suggestion(self.taken, grows=self.spec.memory_max_mib is not None)

    def _state_of_job(self) -> State:
        if self.state == "finished":
            return "failed" if self.listing.counts.failed else "succeeded"
        return "paused" if self.state == "lost" and self.site.run_command(self.spec.job) else self.state

    def note(self) -> str | None:
        """The most urgent thing that a person should know. What keeps machines from coming is part of the `fleet`
        instead, where that is shown."""
        counts = self.listing.counts
        if tombstone := self.listing.cancellation:
            return cancelled_words(tombstone)
        if counts.start_failures:
            texts = self.ledger.start_failures(counts.rounds - 1) or [""]
            times = "once" if counts.start_failures == 1 else f"{counts.start_failures} times"
            return f"the program did not start {times}: {telling(texts[-1])}"
        if self.deliveries.lost or self.waits_for:
            return self.deliveries.reason
        return self._waiting_note() if self.state == "waiting" else self._growth_note()

    def _growth_note(self) -> str | None:
        most = self.spec.memory_max_mib
        if not self.taken or not self.grows:
            return None
        return f"items ran out of memory and may have up to {most} MiB: `tidemill wait {self.spec.job}` sends them"

    def _waiting_note(self) -> str | None:
        queues = self.site.backend(self.spec.queue).queue_states({self.spec.queue: queue_of(self.site, self.spec)})
        queue = queues[self.spec.queue]
        if not queue.running:
            return f"queue {self.spec.queue!r} is {queue.detail}"
        words = [] if self.fleet else machine_words(self.site, self.spec.queue)
        return words[0] if words else self._lasting_reason()

    def _lasting_reason(self) -> str | None:
        """The queue's reason why the job waits, unless a healthy queue may give it, too, while machines come."""
        reason = self.deliveries.reason
        if not reason or not reason.startswith("MISCONFIGURATION:"):
            return reason
        from tidemill.explain.judge import LASTING_SECONDS

        return None if self.idle_seconds < LASTING_SECONDS else reason


def cancelled_words(tombstone: Mapping[str, Any]) -> str:
    """Who ended a job, and why: a person, or the job's own worker."""
    by, reason = tombstone.get("by"), tombstone.get("reason", "")
    why = telling(reason)
    if by == "worker":
        return f"stopped: {why}"
    return f"cancelled by {by or 'an unknown user'}{'' if reason == BY_ITS_USER else f': {why}'}"


def telling(text: str) -> str:
    """The most telling part of a program's last words: of pip's, its last error rather than its warnings."""
    lines = text.strip().splitlines()
    errors = [line for line in lines if line.startswith("ERROR: ")]
    if not errors:
        return text
    head, colon, _ = lines[0].partition(": ")
    message = errors[-1] if not colon or head == "ERROR" else f"{head}: {errors[-1]}"
    # Of an index that does not answer, pip says last that no version was found there.
    return f"{message} (the package index could not be reached)" if _NO_INDEX.search(text) else message
