"""Fetches the logs of items, as a file each, by one query of the whole job: clouds bill queries."""

from __future__ import annotations

from pathlib import Path

from tidemill.client.results.downloads import full, parts_folder, unwritable
from tidemill.client.results.fetch_target import FetchContext
from tidemill.client.results.log_files import LogFiles
from tidemill.clouds.account import Account, LogSearch
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.outcome_items import items_of

LOGS = "logs"


def fetch_logs(account: Account, ledger: Ledger, spec: JobSpec, how: FetchContext) -> int:
    """Write `logs/<name>.log` below the folder for every item that printed something, and return how many they are.

    A file holds the lines of all attempts, each with its time (UTC), attempt and stream. It replaces the file of an
    earlier fetch when all lines are there.

    Raises:
        CallerError: The folder cannot be written, or its disk is full.
        CloudError: The log cannot be read.
    """
    folder = how.target.folder
    try:
        with parts_folder(folder) as parts:
            lines = LogFiles(parts)
            for line in account.logs(LogSearch(spec.job, since=spec.created_at.timestamp())):
                item = line.fields.get("item")
                if isinstance(item, int) and "stream" in line.fields and how.wants(item):
                    lines.write(str(item), line.fields.get("attempt", "?"), line)
                how.look()
            lines.close()
            for item in items_of(ledger):
                if str(item.index) in lines.names:
                    _place(parts / str(item.index), f"{LOGS}/{how.names.of(item)}.log", how)
            return len(lines.names)
    except OSError as error:
        raise full(folder, error) or unwritable(folder, error) from None


def _place(part: Path, name: str, how: FetchContext) -> None:
    try:
        how.target.place(part, name)
    except OSError as error:
        if full(how.target.folder, error) is not None:
            raise
        how.problems.append((name, error.strerror or str(error)))
