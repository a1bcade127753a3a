"""How long the command line takes to answer, compared with the library that it uses and with other tools.

The programs run in turn, and the median of each counts: what else the machine does disturbs all of them.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.figures import figure
from benchmarks.peers import compiled

RUNS = 25
RATIO = 1.2
SDKS = ("boto3", "botocore", "google.auth", "obstore", "pydantic", "rich", "tidemill.client")
LOADED = f"""
import sys
from tidemill.cli import main
main(["--help"])
print(*[name for name in {SDKS!r} if name in sys.modules], file=sys.stderr)
"""
OTHERS = {"aws --version": ["aws", "--version"], "sky --help": ["sky", "--help"]}
TIMEOUT_SECONDS = 60


def main() -> None:
    """Print a table and the figures."""
    tidemill = str(Path(sys.executable).with_name("tidemill"))
    programs = {
        "python3 -c 'import click'": [sys.executable, "-c", "import click"],
        "tidemill --help": [tidemill, "--help"],
        "tidemill submit --help": [tidemill, "submit", "--help"],
    }
    programs |= {name: command for name, command in OTHERS.items() if shutil.which(command[0])}
    took: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(RUNS):
        for name, command in programs.items():
            took[name].append(seconds(command))
    typical = {name: statistics.median(each) for name, each in took.items()}
    for name, each in typical.items():
        print(f"{name:<28} {1000 * each:6.0f} ms")
    ratio = typical["tidemill --help"] / typical["python3 -c 'import click'"]
    figure("cli-help-against-click", ratio, "x", RATIO)
    figure("cli-help-sdks-imported", len(sdks()), "modules", 0)


def seconds(command: list[str]) -> float:
    """Return how long a command takes."""
    start = time.perf_counter()
    subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=True, env=compiled()
    )
    return time.perf_counter() - start


def sdks() -> list[str]:
    """Return the heavy modules that `tidemill --help` imports."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
    )
    return done.stderr.split()
