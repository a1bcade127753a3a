"""This machine's user, and the lines that its workers have printed."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from pathlib import Path

from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.clouds.local.desk import Desk
from tidemill.descriptor import Descriptor
from tidemill.secrets.local import LocalSecrets


class LocalAccount(Account):
    """Who uses this machine, and the logs next to a store's jobs."""

    log_late_seconds = 5.0

    def __init__(self, descriptor: Descriptor) -> None:
        super().__init__()
        self._store = descriptor.store

    def user(self) -> str:
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return str(os.getuid())

    def secrets(self) -> LocalSecrets:
        return LocalSecrets()

    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        desk = Desk(self._store, search.job)
        lines = [line for path in desk.logs.glob("*.jsonl") for line in _lines(path, search)]
        yield from sorted(lines, key=lambda line: (line.at, line.id))


open_account = LocalAccount


def _lines(path: Path, search: LogSearch) -> Iterator[LogLine]:
    hint = (search.text or "").encode()
    with path.open("rb") as file:
        for number, raw in enumerate(file):
            try:
                fields = json.loads(raw) if hint in raw or b"\\" in raw else {}
            except ValueError:
                # The last line of a worker that was killed while it wrote.
                continue
            if fields:
                id_ = f"{path.stem}:{number:09d}"
                line = LogLine(fields.get("at", 0.0), raw.decode().rstrip("\n"), path.stem, fields, id_)
                if search.has(line):
                    yield line
