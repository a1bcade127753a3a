"""The order of the suite: slow tests begin first, so that no core waits for the other at the end. Imported objects are
not searched for garbage, and what has not changed may be left out."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest

from tests import warm
from tests.unchanged import Unchanged

HERE = Path(__file__).parent
WAITING = ("e2e/test_gcp_", "e2e/", "chaos/", "worker/")
COMPUTING = ("e2e/test_readme", "engine/", "localcloud/", "worker_image/", "store/")
"""Beginnings of paths below this folder, the slowest first; all others come after both."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what the Makefile asks for."""
    parser.addoption("--leave-out-unchanged", action="store_true", help="see tests/unchanged.py; not for a part of it")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what has not changed, and let all workers of xdist fork engine runs from one process."""
    if config.getoption("leave_out_unchanged"):
        config.pluginmanager.register(Unchanged(config))
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        warm.share()


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
    """Let files that mostly wait and files that mostly compute take turns, so that each core has something to do."""
    lanes: tuple[dict[str, int], ...] = ({}, {}, {})
    for item in items:
        path = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if (folder := path.partition("/")[0]) in ("e2e", "engine"):
            item.add_marker(folder)
        lane = 1 if path.startswith(COMPUTING) else 0 if path.startswith(WAITING) else 2
        starts = (WAITING, COMPUTING, ("",))[lane]
        lanes[lane][str(item.path)] = next(rank for rank, start in enumerate(starts) if path.startswith(start))
    places = {}
    for lane, ranks in enumerate(lanes):
        for turn, path in enumerate(sorted(ranks, key=ranks.__getitem__)):
            places[path] = (lane == 2, turn, lane)
    items.sort(key=lambda item: places[str(item.path)])
