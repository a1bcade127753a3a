"""The command line: `tidemill COMMAND`. One module per command, imported only when the command is typed."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line, by default that of this process.

    Returns:
        The exit code: 0 done, 1 the job has failed items, 2 the caller's mistake, 3 the cloud or the store refused.
    """
    try:
        from tidemill.cli.app import execute
    except KeyboardInterrupt:
        return 130

    return execute(list(sys.argv[1:] if arguments is None else arguments))
