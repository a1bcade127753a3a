"""The command line: `tidemill COMMAND`. One module per command, imported only when the command is typed."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main() -> None:
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code.

    Returns:
        0 done, 1 the job has failed items, 2 the caller's mistake, 3 the cloud or the store refused.
    """
    from tidemill.cli.app import execute

    return execute(list(arguments))
