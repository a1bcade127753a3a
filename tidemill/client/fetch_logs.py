"""What a job's items printed, as a file for each item, from one query of the whole job: clouds bill them."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tidemill.backends import Backend, LogLine, LogSearch
from tidemill.client.downloads import full, parts_folder, unwritable
from tidemill.client.item_names import ItemNames
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.paired import items_of

LOGS = "logs"
_OPEN = 200
"""Files that are open at once: lines of all items come in the order of their times."""


def fetch_logs(
    backend: Backend,
    ledger: Ledger,
    spec: JobSpec,
    folder: Path,
    *,
    wanted: Collection[int] | None,
    names: ItemNames,
    look: Callable[[], None],
) -> int:
    """Write `logs/<name>.log` below a folder for every item that printed something, and return how many they are.

    A file holds the lines of all attempts, each with its time (UTC), attempt and stream. It replaces the file of an
    earlier fetch when all lines are there.

    Raises:
        CallerError: The folder cannot be written, or its disk is full.
        CloudError: The log cannot be read.
    """
    try:
        with parts_folder(folder) as parts:
            lines = _LogFiles(parts)
            for line in backend.logs(LogSearch(spec.job, since=spec.created_at.timestamp())):
                item = line.fields.get("item")
                if isinstance(item, int) and "stream" in line.fields and (wanted is None or item in wanted):
                    lines.write(item, line)
                look()
            lines.close()
            for item in items_of(ledger):
                if item.index in lines.items:
                    target = folder / LOGS / f"{names.of(item)}.log"
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(parts / str(item.index), target)
            return len(lines.items)
    except OSError as error:
        raise full(folder, error) or unwritable(folder, error) from None


class _LogFiles:
    """Files of lines, by item; few of them are open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.items: set[int] = set()
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()

    def write(self, item: int, line: LogLine) -> None:
        file = self._open.get(item)
        if file is None:
            if len(self._open) >= _OPEN:
                self._open.popitem(last=False)[1].close()
            file = self._open[item] = (self._folder / str(item)).open("ab")
            self.items.add(item)
        self._open.move_to_end(item)
        at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        text = f"{at}Z {line.fields.get('attempt', '?')} {line.fields['stream']} {line.said}\n"
        file.write(text.encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
