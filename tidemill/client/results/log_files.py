"""Files of log lines: each line with its time (UTC, to the millisecond), whose it is, its stream and what was said."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tidemill.clouds.account import LogLine

_OPEN = 200
"""Files that are open at once: lines of all items come in the order of their times."""


def stamp_of(at: float) -> str:
    """A time as lines of a file begin: such stamps are in the order of their times."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


class LogFiles:
    """Files of lines in a folder, by name; few of them are open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.names: set[str] = set()
        """Of files that have been written to."""
        self._open: OrderedDict[str, BinaryIO] = OrderedDict()

    def write(self, name: str, who: object, line: LogLine) -> None:
        file = self._open.get(name)
        if file is None:
            if len(self._open) >= _OPEN:
                self._open.popitem(last=False)[1].close()
            file = self._open[name] = (self._folder / name).open("ab")
            self.names.add(name)
        self._open.move_to_end(name)
        escaped = line.said.replace("\n", "\\n")
        text = f"{stamp_of(line.at)} {who} {line.fields.get('stream', 'worker')} {escaped}\n"
        file.write(text.encode("utf-8", "backslashreplace"))

    def flush(self) -> None:
        for file in self._open.values():
            file.flush()

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
