"""A store in memory, and an empty state folder."""

from __future__ import annotations

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
