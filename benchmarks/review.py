"""How long `ops review` takes the first time and the second time on the same base: each
command starts as it does for a user, in a checkout of its own with an empty cache of bases.

The fastest of several runs counts on both sides: on a machine that also does other work, it was disturbed least. Both
reviews must say the same. A change of one queue's capacity is reviewed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import figure
from tidemill.folders import cache_folder

ROOT = Path(__file__).resolve().parents[1]
STACKS = ("vision-dev", "vision-gcp-dev")
RUNS = 3
RATIO = 0.6
TIMEOUT_SECONDS = 600


def main() -> None:
    """Print a table and the figures."""
    print(f"{'stack':<16} {'first':>8} {'second':>8}  seconds of a review")
    with tempfile.TemporaryDirectory(prefix="tidemill-review-") as scratch:
        folder, env = _checkout(Path(scratch)), _cached(Path(scratch, "cache"))
        for stack in STACKS:
            pairs = [_pair(stack, folder, env) for _ in range(RUNS)]
            first, second = (min(pair[which] for pair in pairs) for which in (0, 1))
            print(f"{stack:<16} {first:>8.2f} {second:>8.2f}")
            figure(f"review-again-{stack}", second / first, "x", RATIO)


def _checkout(scratch: Path) -> Path:
    """A clone of this checkout's commit in which stack files differ."""
    folder = scratch / "checkout"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True, timeout=TIMEOUT_SECONDS)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    for stack in STACKS:
        file = folder / "stacks" / f"Pulumi.{stack}.yaml"
        text = file.read_text(encoding="utf-8")
        changed = text.replace("max_cpus: 64", "max_cpus: 128")
        if changed == text:
            raise RuntimeError(f"{file.name} has no max_cpus: 64 to change")
        file.write_text(changed, encoding="utf-8")
    return folder


def _cached(cache: Path) -> dict[str, str]:
    """The environment of a user whose cache has what is built, and no base."""
    (cache / "tidemill").mkdir(parents=True)
    for built in ("engine", "pubsub"):
        (cache / "tidemill" / built).symlink_to(cache_folder() / built)
    return {key: value for key, value in os.environ.items() if key != "CI"} | {"XDG_CACHE_HOME": str(cache)}


def _pair(stack: str, folder: Path, env: dict[str, str]) -> tuple[float, float]:
    """Seconds of the first and the second review on a base.

    Raises:
        RuntimeError: They differ, so the comparison means nothing.
    """
    shutil.rmtree(Path(env["XDG_CACHE_HOME"], "tidemill", "bases"), ignore_errors=True)
    runs = []
    for _ in range(2):
        start = time.perf_counter()
        command = [sys.executable, "-m", "ops", "review", "--stack", stack, "--base", "HEAD"]
        done = subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS,
            check=True,
        )  # fmt: skip
        runs.append((time.perf_counter() - start, done.stdout))
    if runs[0][1] != runs[1][1]:
        raise RuntimeError(f"the second review of {stack} says something else")
    return runs[0][0], runs[1][0]
