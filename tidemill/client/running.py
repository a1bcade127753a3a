"""Items that have ended in chunks without a record, from the progress that workers write."""

from __future__ import annotations

import json
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tidemill import layout
from tidemill.client.status import Status
from tidemill.errors import decoding
from tidemill.ledger import Ledger

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

    def added(self, status: Status, waiting: Collection[int]) -> Status:
        """A status that counts them too: those of chunks that wait for a record of the newest round with them."""
        folder = layout.of_round(self._ledger.job, status.rounds - 1, "progress")
        open_ = [name for name in self._ledger.store.list(folder) if int(name.split("/")[-2]) in waiting]
        self._read = {name: self._read[name] for name in open_ if name in self._read}
        new = [name for name in open_ if name not in self._read][:READS]
        with ThreadPoolExecutor(_PARALLEL if self._ledger.store.is_object_store else 1) as pool:
            self._read |= zip(new, pool.map(self._failed_of, new), strict=True)
        found: dict[int, bool] = {}
        for name in open_:
            found |= self._read.get(name, {})
        failed = sum(found.values())
        if status.again:
            ended = min(len(found), status.again.items - status.again.ended)
            again = replace(status.again, ended=status.again.ended + ended, failed=status.again.failed + failed)
            return status if status.remaining else replace(status, again=again)
        ended = min(len(found), status.remaining)
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
