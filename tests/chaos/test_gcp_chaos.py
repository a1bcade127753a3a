"""Chains and messages on GCP under deaths, by a seed. `make bench ONLY=chaos` has more lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.gcp import run
from tidemill.worker.chunks.endings import Endings


def test_a_chain_loses_nothing_and_tells_each_end_whoever_dies(tmp_path: Path) -> None:
    seen = run(tmp_path, seed=4, lives=3)
    assert seen.wrong == []
    # The lives were as bad as intended.
    for event in ("submit first died", "submit second died", "reconcile died", "work died", "cancel", "retry"):
        assert seen.events[event], event


def test_it_sees_workers_that_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Endings, "committed", lambda *_: None)
    assert any("was not told" in text for text in run(tmp_path, seed=4, lives=2, steps=4).wrong)
