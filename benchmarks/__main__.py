"""`python -m benchmarks [NAME...]`: run benchmarks, each in its own process.

A benchmark is a module of this folder with a `main()` that prints its table and its figures
(`benchmarks/figures.py`). A name also stands for those that begin with it: `transfer` for `transfer-up` and
`transfer-down`. Exit code: 0 if every figure is within its limit, 1 if a figure is short or a benchmark failed, 2 for
an unknown name.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from benchmarks import figures
from tests.warm import COLD

NAMES = (
    "submit",
    "publish",
    "templates",
    "status",
    "advise",
    "top",
    "report",
    "items",
    "incremental",
    "staged",
    "transfer-up",
    "transfer-down",
    "state",
    "state-transfer",
    "state-run",
    "cli",
    "first-hour",
    "image",
    "chaos",
    "fleet",
    "preview",
    "review",
    "requests",
    "logs",
)
TIMEOUT_SECONDS = 1800


def there() -> list[str]:
    """List the benchmarks of this folder, in their order."""
    return [name for name in NAMES if (Path(__file__).parent / f"{module(name)}.py").is_file()]


def module(name: str) -> str:
    """Return the module of a benchmark."""
    return name.replace("-", "_")


def run_one(name: str) -> int:
    """Run a benchmark in this process. Every process that it starts begins as it does for a user."""
    os.environ[COLD] = "1"
    print(f"# {name}: {figures.machine()}", flush=True)
    importlib.import_module(f"benchmarks.{module(name)}").main()
    return 1 if figures.short else 0


def main(arguments: list[str]) -> int:
    """Run the named benchmarks, or all of them. The module documents the exit code."""
    if arguments[:1] == ["--here"]:
        return run_one(arguments[1])
    known = there()
    chosen = {name: [one for one in known if one == name or one.startswith(f"{name}-")] for name in arguments}
    for name, found in chosen.items():
        if not found:
            print(f"ONLY is {name!r}; allowed: {', '.join(known)}. Give one of them, or nothing for all.")
            return 2
    code = 0
    for name in [one for found in chosen.values() for one in found] or known:
        command = [sys.executable, "-m", "benchmarks", "--here", name]
        try:
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name}: not within {TIMEOUT_SECONDS} s")
            code = 1
            continue
        code |= ended.returncode != 0
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
