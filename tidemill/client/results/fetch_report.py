"""The result of a fetch, so far or at its end."""

from __future__ import annotations

from dataclasses import dataclass, field

NAMED = 20
"""Items and files that a report names."""


@dataclass
class TransferProgress:
    """Progress of the files so far.

    Attributes:
        files: Files that came down.
        bytes: Their bytes, and those of files that are still coming.
        kept: Files that were there already.
        kept_bytes: Their bytes.
        problems: Files that could not be written, each with the reason.
    """

    files: int = 0
    bytes: int = 0
    kept: int = 0
    kept_bytes: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class ItemCount:
    """How many items, and the first of them."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, index: int) -> None:
        self.count += 1
        if len(self.first) < NAMED:
            self.first.append(index)


@dataclass
class FetchReport:
    """Result of a fetch, so far or at its end.

    Attributes:
        job: The job's id.
        folder: Where everything is.
        items: How many items were asked for.
        complete: Those of them whose outputs are all in the folder; some succeed without writing a file.
        unfinished: Items without an outcome yet.
        failed: Items that failed: they have no outputs.
        gone: Items whose outputs are not in the store any more.
        moved: The files.
        logs: Items that have a log; None when logs were not asked for.
        states: The same of saved state.
    """

    job: str
    folder: str
    items: int
    complete: int = 0
    unfinished: ItemCount = field(default_factory=ItemCount)
    failed: ItemCount = field(default_factory=ItemCount)
    gone: ItemCount = field(default_factory=ItemCount)
    moved: TransferProgress = field(default_factory=TransferProgress)
    logs: int | None = None
    states: int | None = None

    @property
    def whole(self) -> bool:
        """True if the folder has the outputs of every item that was asked for."""
        return self.complete == self.items and not self.moved.problems
