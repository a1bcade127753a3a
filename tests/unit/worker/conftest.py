"""A store in memory, and workers of a machine on it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.fakes import Clock, Runs
from tidemill.machine import Capacity
from tidemill.store import Store
from tidemill.worker.loop import Worker
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("tidemill.store.store._PAUSES", (0.0,) * 3)
    return Store.open("memory://")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def serve(store: Store, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Makes a worker of a machine with one CPU."""
    scratches = []

    def make(source: Any, runs: Any = None, **options: Any) -> Worker:
        runners: Any = runs or Runs()
        scratches.append(Scratch(tmp_path, f"w{len(scratches)}", None))
        given = {"stop": Stop(), "capacity": Capacity(1.0, 4096), **options}
        return Worker(store, source, runners, scratch=scratches[-1], base_env={}, **given)

    yield make
    for scratch in scratches:
        scratch.close()
