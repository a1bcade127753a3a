"""Leaves out tests that need namespaces, marked `namespaces`, where the kernel refuses them, and counts those.

In CI (`CI` is set) such a test fails instead, because a run that left it out would be green for nothing.
`WITHOUT_NAMESPACES=1` leaves it out there, too.
"""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest

from localcloud.machines import namespaces

MARK = "namespaces"
ALLOWED = "WITHOUT_NAMESPACES"
LEFT_OUT = "needs namespaces, which the kernel refuses"


@cache
def refused() -> str:
    """Why there are no namespaces here; empty if there are."""
    with tempfile.TemporaryDirectory() as folder:
        return namespaces.refusal(Path(folder))


def pytest_configure(config: pytest.Config) -> None:
    text = "the kernel has to allow user namespaces and mounts; (False) for a test that needs none"
    config.addinivalue_line("markers", f"{MARK}: {text}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ask the kernel before the first fixture is made."""
    mark = item.get_closest_marker(MARK)
    if mark and mark.args == (False,) and not namespaces.runs():
        pytest.skip("runs plain processes, which need Landlock (Linux 6.2) if they are root's")
    if mark is None or mark.args == (False,) or not (reason := refused()):
        return
    if os.environ.get("CI") and not os.environ.get(ALLOWED):
        pytest.fail(f"{LEFT_OUT} ({reason}). {namespaces.fix(reason)}, or set {ALLOWED}=1.", pytrace=False)
    pytest.skip(f"{LEFT_OUT} ({reason})")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count what was left out, and say how to run it."""
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if LEFT_OUT in str(each.longrepr)]
    if skipped:
        reason = refused()
        terminalreporter.write_line(
            f"{len(skipped)} tests left out: the kernel refuses namespaces ({reason}). {namespaces.fix(reason)}"
        )
