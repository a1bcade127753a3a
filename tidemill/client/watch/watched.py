"""A job as those see it who watch it: one look after another, each of which reads only what the last one has not."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tidemill import layout
from tidemill.client.plan.notification import tell_end
from tidemill.client.rounds.deliveries import known_arrays
from tidemill.client.site import Site
from tidemill.client.watch.observation import Observation, observe
from tidemill.client.watch.status import Status
from tidemill.completion import owners
from tidemill.errors import CallerError, CloudError, decoding
from tidemill.explain import Explanation, Reason
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Listing
from tidemill.ledger.first_item import first_item_seconds
from tidemill.ledger.rounds import round_of
from tidemill.ledger.start_limit import has_started, start_limit

if TYPE_CHECKING:
    from tidemill.explain.judge import CauseHistory

READS = 256
"""New progress objects that one look reads at most; the next look reads the rest."""
STILL_SECONDS = 300.0
"""Without a record for this long, `status` and `wait` say why."""
_PARALLEL = 16
_LONG_ITEMS = "L13"


class WatchedJob:
    """A job, as those see it who watch it."""

    def __init__(self, site: Site, spec: JobSpec) -> None:
        self.site, self.spec, self.ledger = site, spec, Ledger(site.store, spec.job, spec.manifest)
        self._read: dict[str, dict[int, bool]] = {}
        self._progress_of: dict[int, list[str]] = {}
        self._causes: CauseHistory | None = None
        self._reason: Reason | None = None
        self._explain_at = 0.0

    def look(self, *, consumption: bool = False, running: bool = False) -> tuple[Status, Listing]:
        """The job's status (see `Job.status`), and the names of the store that it was made from."""
        seen = observe(self.site, self.ledger, self.spec, consumption=consumption)
        if seen.state == "waiting" and self._ends_late(seen.listing):
            seen = observe(self.site, self.ledger, self.spec, consumption=consumption)
        status = seen.status()
        if consumption and not self.site.local:
            status = replace(status, first_item_seconds=first_item_seconds(self.site.store, self.spec.job))
        if running and seen.state != "finished":
            status = self.with_running(status, seen.listing)
        if running and not status.ended:
            status = replace(status, explained=self._why_still(status, seen))
        return status, seen.listing

    def _ends_late(self, listing: Listing) -> bool:
        """End a job that has not started in time."""
        limit = start_limit(self.spec, listing.rounds[-1]) if listing.rounds else None
        if limit is None or self.site.account.now() < limit.until or listing.counts.cancelled:
            return False
        if has_started(self.ledger):
            return False
        self.end(limit.reason, len(listing.rounds))
        return True

    def with_running(self, status: Status, listing: Listing) -> Status:
        """A status that counts items of running chunks, too. A chunk is committed whole, so without them a job of few
        chunks seems to stand still."""
        failed_of = self._progress(listing)
        failed = sum(failed_of.values())
        if again := status.again:
            ended = min(len(failed_of), again.items - again.ended)
            counted = replace(again, ended=again.ended + ended, failed=again.failed + failed)
            return status if status.remaining else replace(status, again=counted)
        ended = min(len(failed_of), status.remaining)
        return replace(
            status,
            succeeded=status.succeeded + ended - failed,
            failed=status.failed + failed,
            remaining=status.remaining - ended,
        )

    def _progress(self, listing: Listing) -> dict[int, bool]:
        """Items that have ended in chunks without a record, and whether each has failed: from the progress that workers
        write, of which each object is read once."""
        store, names = self.ledger.store, list[str]()
        self._progress_of = defaultdict(list)
        for number, chunks in _open_chunks(listing).items():
            for name in store.list(layout.of_round(self.spec.job, number, "progress")):
                if (chunk := int(name.split("/")[-2])) in chunks:
                    names.append(name)
                    self._progress_of[chunk].append(name)
        self._read = {name: self._read[name] for name in names if name in self._read}
        new = [name for name in names if name not in self._read][:READS]

        def read(name: str) -> dict[int, bool]:
            with decoding(store.uri_of(name)):
                lines = [json.loads(line) for line in (store.find(name) or b"").splitlines()]
                return {line["index"]: line["status"] == "failed" for line in lines}

        with ThreadPoolExecutor(_PARALLEL if store.is_object_store else 1) as pool:
            self._read |= zip(new, pool.map(read, new), strict=True)
        return {index: failed for name in names for index, failed in self._read.get(name, {}).items()}

    def progress_of(self, chunk: int) -> list[str]:
        """Names of the progress of a chunk without a record, as of the last look with `running`."""
        return self._progress_of.get(chunk, [])

    def _why_still(self, status: Status, seen: Observation) -> Reason | None:
        """Why a job has committed nothing for a while; None while it progresses, or when nothing can be asked. Looks
        that follow each other tell what passes and what stays."""
        if status.run_command or status.waits_for or seen.idle_seconds < STILL_SECONDS:
            self._reason = None
        elif time.monotonic() >= self._explain_at:
            from tidemill.client.watch.explain import read_facts
            from tidemill.explain.judge import APART_SECONDS, CauseHistory, explain

            self._causes = self._causes or CauseHistory()
            # Each of these costs a dozen requests.
            self._explain_at = time.monotonic() + APART_SECONDS
            with suppress(CallerError, CloudError):
                reason = explain(read_facts(seen), self._causes).headline
                # Long items are no news.
                self._reason = None if reason.kind == "well" or reason.code == _LONG_ITEMS else reason
        return self._reason

    def explain(self) -> Explanation:
        """See `Job.explain`."""
        from tidemill.client.watch.explain import read_facts
        from tidemill.explain.judge import explain

        return explain(read_facts(observe(self.site, self.ledger, self.spec)))

    def tell(self, status: Status, listing: Listing, *, given_up: bool = False) -> Status:
        """A status of a job that has ended says whether someone was told, and this is told now if no one was.
        `given_up` is whether no one repairs what is lost."""
        lost = given_up and status.state == "lost"
        # Items of unfinished chunks count, where the status has them.
        counts = replace(listing.counts, succeeded=status.succeeded, failed=status.failed)
        return replace(status, told=tell_end(self.site, self.spec, replace(listing, counts=counts), lost=lost))

    def cancel(self, reason: str) -> int:
        """See `Job.cancel`."""
        if self.ledger.counts().finished:
            return 0
        ended = self.end(reason)
        if self.spec.notify:
            self.tell(*self.look(running=True))
        return ended

    def end(self, reason: str, rounds: int | None = None, max_usd: float | None = None) -> int:
        """End the first so many rounds, or all there are. Returns how many arrays were ended."""
        covered = self.ledger.cancel(self.site.account.user(), reason, rounds, max_usd)
        arrays = [array for array in known_arrays(self.site, self.spec) if round_of(array.name) < covered]
        return self.site.backend(self.spec.queue).cancel(arrays, reason)


def _open_chunks(listing: Listing) -> dict[int, set[int]]:
    """By round: chunks without a record whose progress in it counts. That is the newest round that enqueued the chunk,
    and each before it whose work on the chunk it continues."""
    newest, by_round = owners(listing.rounds), dict[int, set[int]]()
    for round_ in reversed(listing.rounds):
        for chunk in listing.waiting.intersection(round_.enqueued()):
            last = newest[chunk]
            if last < 0:
                continue
            if round_.round == last or (
                chunk not in listing.done[round_.round] and round_.runs_as(listing.rounds[last], chunk)
            ):
                by_round.setdefault(round_.round, set()).add(chunk)
            else:
                newest[chunk] = -1
    return by_round
