"""A plug-in of pytest that writes down the headlines which tests of explain see: part of `benchmarks/explain.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tidemill.explain import judge

SEEN = "TIDEMILL_HEADLINES"
"""Variable with the file to write."""
WORLDS = {"team", "world"}
"""Fixtures of tests whose facts are read, not made."""
_worlds = [False]


def pytest_runtest_setup(item: Any) -> None:
    """Note whether a test reads its facts."""
    _worlds[0] = bool(WORLDS & set(item.fixturenames))


def pytest_configure(config: Any) -> None:
    """Write down the headline of every explanation in such a test."""
    real, note = judge.explain, Path(os.environ[SEEN])

    def explain(*given: Any) -> Any:
        found = real(*given)
        if _worlds[0]:
            with note.open("a") as file:
                file.write(f"{found.headline.code}\n")
        return found

    judge.explain = explain
