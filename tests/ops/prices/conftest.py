"""A price table of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.prices import pages
from tidemill.prices import dearest, own, table


def _forget() -> None:
    for cached in (table._region, own.read, dearest._anywhere, dearest._of_family):
        cached.cache_clear()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty table, and the folder that it is in."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(table, "DATA", folder)
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "pages")
    _forget()
    yield folder
    _forget()
