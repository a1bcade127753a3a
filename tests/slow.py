"""Leaves slow tests to CI.

They type whole quickstarts, build what users install, or take machines away for minutes. What they show rarely breaks
while all other tests pass, and on the machine of a developer they would take half of the time.
"""

from __future__ import annotations

import pytest

from tests.unchanged import ALL

SLOW = (
    "tests/attack/",
    "tests/e2e/personal/test_gcp.py",
    "tests/e2e/test_gcp_machines_are_taken_away.py::test_500_items",
    "tests/e2e/test_gcp_machines_that_fail.py",
    "tests/e2e/test_mutants.py",
    "tests/e2e/test_readme.py::test_the_commands_for_gcp",
    "tests/e2e/test_readme.py::test_the_demo",
    "tests/e2e/test_readme.py::test_the_quickstarts",
    "tests/engine/backends/",
    "tests/engine/examples/",
    "tests/engine/test_bootstrap.py",
    "tests/engine/test_families.py",
    "tests/engine/test_replacement.py",
)
"""Beginnings of their ids."""
COUNT = "slow"


class Slow:
    """A pytest plugin that leaves slow tests out, and says so."""

    def __init__(self) -> None:
        self._left_out = 0

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Take them out. A worker of xdist tells the process that started it how many there are."""
        slow = [item for item in items if item.nodeid.startswith(SLOW)]
        items[:] = [item for item in items if not item.nodeid.startswith(SLOW)]
        config.hook.pytest_deselected(items=slow)
        self._left_out = len(slow)
        if (output := getattr(config, "workeroutput", None)) is not None:
            output[COUNT] = len(slow)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        """Take the count of a worker of xdist, each of which collects all tests."""
        self._left_out = getattr(node, "workeroutput", {}).get(COUNT, self._left_out)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say how many did not run."""
        if self._left_out:
            terminalreporter.write_line(f"left out, slow: {self._left_out} tests; {ALL}")
