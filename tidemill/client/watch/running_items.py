"""Items that have ended in chunks without a record, from the progress that workers write."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tidemill import layout
from tidemill.client.watch.status import Status
from tidemill.completion import owners
from tidemill.errors import decoding
from tidemill.ledger import Ledger, Listing

READS = 256
"""New progress objects that one look reads at most; the next look reads the rest."""
_PARALLEL = 16


class RunningItems:
    """Counts items of running chunks. A chunk is committed whole, so without this a job of few chunks seems to stand
    still. Each progress object is read once.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read: dict[str, dict[int, bool]] = {}

    def added(self, status: Status, listing: Listing) -> Status:
        """A status that counts them too."""
        open_ = [
            name
            for number, chunks in _open_chunks(listing).items()
            for name in self._ledger.store.list(layout.of_round(self._ledger.job, number, "progress"))
            if int(name.split("/")[-2]) in chunks
        ]
        self._read = {name: self._read[name] for name in open_ if name in self._read}
        new = [name for name in open_ if name not in self._read][:READS]
        with ThreadPoolExecutor(_PARALLEL if self._ledger.store.is_object_store else 1) as pool:
            self._read |= zip(new, pool.map(self._failed_of, new), strict=True)
        by_item: dict[int, bool] = {}
        for name in open_:
            by_item |= self._read.get(name, {})
        failed = sum(by_item.values())
        if status.again:
            ended = min(len(by_item), status.again.items - status.again.ended)
            again = replace(status.again, ended=status.again.ended + ended, failed=status.again.failed + failed)
            return status if status.remaining else replace(status, again=again)
        ended = min(len(by_item), status.remaining)
        return replace(
            status,
            succeeded=status.succeeded + ended - failed,
            failed=status.failed + failed,
            remaining=status.remaining - ended,
        )

    def _failed_of(self, name: str) -> dict[int, bool]:
        data = self._ledger.store.find(name) or b""
        with decoding(self._ledger.store.uri_of(name)):
            lines = [json.loads(line) for line in data.splitlines()]
            return {line["index"]: line["status"] == "failed" for line in lines}


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
