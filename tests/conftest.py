"""The order of the suite: slow tests begin first, so that no core waits for the other at the end. Imported objects are
not searched for garbage, and what has not changed may be left out."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Protocol

import pytest
from xdist.scheduler import LoadFileScheduling

from localcloud import cloud
from tests import warm
from tests.slow import Slow
from tests.unchanged import Unchanged

pytest_plugins = ["tests.kernel"]
HERE = Path(__file__).parent
WAITING = ("e2e/test_gcp_", "e2e/test_machines_", "attack/", "e2e/", "chaos/", "worker/")
COMPUTING = ("e2e/test_readme", "engine/", "localcloud/", "worker_image/", "store/")
"""Beginnings of paths below this folder, the slowest first; all others come after both."""


class PatchTime(Protocol):
    """Puts other functions in the place of those of `time`, until the test ends."""

    def __call__(self, **functions: Callable[..., Any]) -> None: ...


@pytest.fixture
def patch_time(monkeypatch: pytest.MonkeyPatch) -> PatchTime:
    """They are for this thread alone. Servers that other tests left in this process keep the real ones."""
    here = threading.get_ident()

    def patch(name: str, function: Callable[..., Any]) -> None:
        real = getattr(time, name)

        def patched(*args: Any) -> Any:
            return (function if threading.get_ident() == here else real)(*args)

        monkeypatch.setattr(time, name, patched)

    def patches(**functions: Callable[..., Any]) -> None:
        for name, function in functions.items():
            patch(name, function)

    return patches


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare what the Makefile asks for."""
    parser.addoption("--leave-out", action="store_true", help="see tests/slow.py and unchanged.py; for all tests")


def pytest_configure(config: pytest.Config) -> None:
    """Leave out what has not changed, and let all workers of xdist fork engine runs from one process."""
    # A shell that starts us in the background lets us ignore it, and the programs that tests interrupt inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cloud.spawn = warm.spawn
    if config.getoption("leave_out"):
        config.pluginmanager.register(Unchanged(config))
        config.pluginmanager.register(Slow())
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        config.option.tx = [f"popen//python={warm.share()}" for _ in config.option.tx]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run a file in one process, and in one for all of them the files of e2e that share its session's team."""
    paths = (HERE / "e2e").glob("test_*.py")
    shared = {path.relative_to(config.rootpath).as_posix() for path in paths if "Cloud(" not in path.read_text()}

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "e2e" if file in shared else file

    return Files(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Imported objects stay permanently: searching them for garbage costs as much as importing them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # As our programs do: with Python's own 700 objects, searching takes a twentieth of the tests' time.
        gc.set_threshold(50_000)
        if hypothesis := sys.modules.get("hypothesis.internal.conjecture.providers"):
            # It would take examples from the modules that are loaded: other ones in another order of tests.
            hypothesis._get_local_constants = lambda: hypothesis._local_constants  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that mostly wait and files that mostly compute take turns, so that each core has something to do."""
    lanes: tuple[dict[str, int], ...] = ({}, {}, {})
    for item in items:
        path = item.path.relative_to(HERE).as_posix() if item.path.is_relative_to(HERE) else ""
        if (folder := path.partition("/")[0]) in ("attack", "e2e", "engine"):
            item.add_marker("e2e" if folder == "attack" else folder)
        lane = 1 if path.startswith(COMPUTING) else 0 if path.startswith(WAITING) else 2
        starts = (WAITING, COMPUTING, ("",))[lane]
        lanes[lane][str(item.path)] = next(rank for rank, start in enumerate(starts) if path.startswith(start))
    places = {}
    for lane, ranks in enumerate(lanes):
        for turn, path in enumerate(sorted(ranks, key=ranks.__getitem__)):
            places[path] = (lane == 2, turn, lane)
    items.sort(key=lambda item: places[str(item.path)])
