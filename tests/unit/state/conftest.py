"""A store in memory, and the state folder of an attempt."""

from pathlib import Path

import pytest

from tidemill.store import Store


@pytest.fixture
def store() -> Store:
    return Store.open("memory://")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"
