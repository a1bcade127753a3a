"""The order of the suite: what takes long begins first, so that no core waits for the other one at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONGEST = ("e2e/test_gcp_", "e2e", "engine", "localcloud", "worker_image", "worker", "chaos")
"""How paths below this folder begin, the longest first; all others come after them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if (folder := path.partition("/")[0]) in ("e2e", "engine"):
            item.add_marker(folder)
        return next((rank for rank, start in enumerate(LONGEST) if path.startswith(start)), len(LONGEST))

    items.sort(key=place)
