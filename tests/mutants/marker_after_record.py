"""Mutant: the number of failed items of a chunk is written after its record instead of before."""

from __future__ import annotations

from typing import Any

from tidemill.ledger import ChunkLedger, Commit

SOUND, MARK = ChunkLedger.commit, ChunkLedger.derive_marker


def commit(self: ChunkLedger, *arguments: Any, **more: Any) -> Commit:
    ChunkLedger.derive_marker = lambda self, record: None  # type: ignore[method-assign]
    try:
        done = SOUND(self, *arguments, **more)
    finally:
        ChunkLedger.derive_marker = MARK  # type: ignore[method-assign]
    MARK(self, done.record)
    return done


def apply() -> None:
    ChunkLedger.commit = commit  # type: ignore[method-assign]
