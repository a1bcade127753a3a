"""The snapshots of an item's state: numbered objects, each created once, and the files that they list.

The create of the next number is the commit, and the fence too. An attempt begins by creating a number of its own, a
*claim*, which lists the same files as the snapshot before. An earlier attempt that is still alive (its machine was
paused, or cut off) finds its next number taken and knows that it is superseded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

from tidemill import layout
from tidemill.errors import DamagedError, decoding
from tidemill.store import Store
from tidemill.tree import Tree

Kind = Literal["snapshot", "claim", "failure"]


_RECENT = 24
"""Snapshots that are read to choose one."""
_SETS = 3
"""Sets of files among which a choice is made."""


class SupersededError(Exception):
    """A later attempt on the item lives: this one must not go on."""


@dataclass(frozen=True)
class Snapshot:
    """`state/<job>/<item>/snapshots/<seq>.json`.

    Attributes:
        seq: Its number, from 1.
        kind: ``snapshot`` for state that was saved; ``claim`` for the start of an attempt; ``failure`` for a program
            that failed soon after it was given the files of `origin`.
        origin: Number of the snapshot that saved these files first; 0 when there are none yet.
        attempt: Who created it.
        round: The attempt's round.
        at: When, in ISO format.
        tree: All files of the state.
        open: Those that somebody was writing all the time; they may end anywhere.
        bytes: What was sent for it.
        seconds: How long that took; for a ``failure``: how long the program ran.
        run: Who hands chunks out, where that is not the cloud.
        marked: The newest round whose program has marked its checkpoints; None when none has.
    """

    seq: int
    kind: Kind
    origin: int
    attempt: str
    round: int
    at: str
    tree: Tree
    open: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0
    run: str = ""
    marked: int | None = None

    def encode(self) -> bytes:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "tree"}
        return json.dumps(fields | {"files": self.tree.to_json()}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes, what: str) -> Snapshot:
        """A snapshot from its bytes. `what` names the object in the `DamagedError` that bad bytes raise."""
        with decoding(what):
            fields = json.loads(data)
            tree = Tree.from_json(fields["files"])
            values = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
            return cls(**{**values, "tree": tree, "open": tuple(values.get("open", ()))})


class Snapshots:
    """The snapshots of one item."""

    def __init__(self, store: Store, job: str, item: int) -> None:
        self.store, self.job, self.item = store, job, item
        self._last = 0
        """The newest number that we know; once the item is claimed, the newest of our own."""
        self._claimed = False
        self.attempt = ""
        self.marked: int | None = None
        """The newest round whose program has marked its checkpoints, for the snapshots to come."""
        self._fields: dict[str, Any] = {}

    # ---- reading ------------------------------------------------------------------------------------------------

    def newest(self) -> Snapshot | None:
        return next(self.newest_first(), None)

    def recent(self) -> list[Snapshot]:
        """The newest snapshots, newest first: enough of them to choose from."""
        snapshots: list[Snapshot] = []
        for snapshot in islice(self.newest_first(), _RECENT):
            snapshots.append(snapshot)
            if len({one.origin for one in snapshots}) > _SETS:
                break
        return snapshots

    def newest_first(self) -> Iterator[Snapshot]:
        """Snapshots of any kind, read one by one. One that cannot be decoded is passed over."""
        folder = layout.snapshots(self.job, self.item)
        with decoding(self.store.uri_of(folder)):
            numbers = sorted((layout.seq_of(name) for name in self.store.list(folder)), reverse=True)
        if not self._claimed:
            self._last = max(numbers[:1], default=0)
        for seq in numbers:
            with suppress(DamagedError):
                if (snapshot := self._find(seq)) is not None:
                    yield snapshot

    def _find(self, seq: int) -> Snapshot | None:
        name = layout.snapshot(self.job, self.item, seq)
        data = self.store.find(name)
        # It may have expired since it was listed.
        return None if data is None else Snapshot.decode(data, self.store.uri_of(name))

    # ---- writing ------------------------------------------------------------------------------------------------

    def claim(self, attempt: str, round_: int, run: str, newest: Snapshot | None) -> Snapshot:
        """Begin an attempt, and end every earlier one: they cannot commit any more.

        Args:
            attempt: Who begins.
            round_: Its round.
            run: Who handed the chunk out, where that is not the cloud.
            known: The newest snapshot, as it was read.

        Returns:
            The claim. Its files are those of the newest snapshot, which another attempt may have made meanwhile.
        """
        self.attempt, self._fields = attempt, {"round": round_, "run": run}
        while True:
            tree, origin = (newest.tree, newest.origin) if newest else (Tree(()), 0)
            self.marked = newest.marked if newest else None
            claim = self._new("claim", tree, origin)
            try:
                claim = self._create(claim)
            except SupersededError:
                newest = self.newest()
            else:
                self._claimed = True
                return claim

    def commit(self, tree: Tree, **fields: Any) -> Snapshot:
        """Make these files the item's state.

        Raises:
            SupersededError: A later attempt has begun.
            StoreError: It is not certain that the snapshot is in the store; it can be committed again.
        """
        return self._create(self._new("snapshot", tree, self._last + 1, **fields))

    def failed(self, of: Snapshot, seconds: float) -> Snapshot:
        """Say that a program failed so soon after it was given the files of a snapshot (see `commit` for errors)."""
        return self._create(self._new("failure", of.tree, of.origin, seconds=round(seconds, 1)))

    def check(self) -> None:
        """Ask whether a later attempt has begun; `SupersededError` if so."""
        while (snapshot := self._find(self._last + 1)) is not None:
            self._settle(snapshot)

    def _new(self, kind: Kind, tree: Tree, origin: int, **fields: Any) -> Snapshot:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Snapshot(
            self._last + 1, kind, origin, self.attempt, at=at, tree=tree, marked=self.marked, **(self._fields | fields)
        )

    def _create(self, snapshot: Snapshot) -> Snapshot:
        while True:
            name = layout.snapshot(self.job, self.item, snapshot.seq)
            created = self.store.create(name, snapshot.encode())
            if created.ours:
                self._last = snapshot.seq
                return snapshot
            # A write whose answer was lost may stand there under our name: then the next number is ours to take.
            self._settle(Snapshot.decode(created.content, self.store.uri_of(name)))
            origin = self._last + 1 if snapshot.kind == "snapshot" else snapshot.origin
            snapshot = Snapshot(**{**vars(snapshot), "seq": self._last + 1, "origin": origin})

    def _settle(self, standing: Snapshot) -> None:
        """Step over what stands where our next number would be, if it is our own."""
        if standing.attempt != self.attempt:
            raise SupersededError(f"attempt {standing.attempt} has begun with the item")
        self._last = standing.seq


def newest_tree(store: Store, job: str, item: int) -> Tree | None:
    """The files of an item's newest snapshot; None when there is none."""
    newest = Snapshots(store, job, item).newest()
    return newest.tree if newest is not None and newest.origin else None
