"""Mutant: how many items of a chunk failed is written down after its record instead of before."""

from __future__ import annotations

from typing import Any

from tidemill.ledger import Ledger
from tidemill.ledger.ledger import Commit

SOUND, MARK = Ledger.commit, Ledger.derive_marker


def commit(self: Ledger, *arguments: Any, **more: Any) -> Commit:
    Ledger.derive_marker = lambda self, record: None  # type: ignore[method-assign]
    try:
        done = SOUND(self, *arguments, **more)
    finally:
        Ledger.derive_marker = MARK  # type: ignore[method-assign]
    MARK(self, done.record)
    return done


def apply() -> None:
    Ledger.commit = commit  # type: ignore[method-assign]
