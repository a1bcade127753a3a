"""The command line: `tidemill COMMAND`. One module per command, imported only when the command is typed."""

from __future__ import annotations

import atexit
import gc
import sys

GARBAGE = 100_000
"""New objects before Python searches for garbage. With its own 700, a short command spends 8 % of its CPU time on
searches among what it has just imported, and finds nothing."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command line, by default that of this process.

    Returns:
        The exit code: 0 done, 1 the job has failed items, 2 the caller's mistake, 3 the cloud or the store refused.
    """
    gc.set_threshold(GARBAGE)
    if arguments is None:
        # Python otherwise looks through all that is here for garbage, several times, before it ends.
        atexit.register(gc.freeze)
    try:
        from tidemill.cli.app import execute
    except KeyboardInterrupt:
        return 130

    return execute(sys.argv[1:] if arguments is None else arguments)
