"""Check stack files without an engine: ``python -m components.config stacks/Pulumi.vision-dev.yaml``.

Exits 0 if all are right, 2 after one line for each that is not. Without arguments every file of ``stacks/`` is checked.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from components.config.errors import ConfigError
from components.config.load import from_file

STACKS = Path(__file__).parents[2] / "stacks"
WRONG = 2


def main(arguments: Sequence[str]) -> int:
    """Check the named files, or all; returns the exit code."""
    paths = [Path(argument) for argument in arguments] or sorted(STACKS.glob("Pulumi.*.yaml"))
    wrong = 0
    for path in paths:
        try:
            from_file(path)
        except ConfigError as error:
            wrong += 1
            print(f"{path.name}: {error}", file=sys.stderr)
    return WRONG if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
