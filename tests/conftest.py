"""The order of the suite: slow tests begin first, so that no core waits for the other at the end. Imported objects are
not searched for garbage."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unchanged import Unchanged

HERE = Path(__file__).parent
LONGEST = ("e2e/test_gcp_", "e2e", "engine", "localcloud", "worker_image", "worker", "chaos")
"""Path prefixes below this folder, the slowest first; all others come after them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what the Makefile asks for."""
    parser.addoption("--leave-out-unchanged", action="store_true", help="see tests/unchanged.py; not for a part of it")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what has not changed."""
    if config.getoption("leave_out_unchanged"):
        config.pluginmanager.register(Unchanged(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imported objects stay permanently: searching them for garbage costs as much as importing them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if (folder := path.partition("/")[0]) in ("e2e", "engine"):
            item.add_marker(folder)
        return next((rank for rank, start in enumerate(LONGEST) if path.startswith(start)), len(LONGEST))

    items.sort(key=place)
