"""How long a newcomer needs for the first results by typing the README's commands, with an empty home folder and
this machine's caches of packages and built programs.

A first clone fills the caches, and the second is measured. The extra time of a slow network is not measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import figure

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.compile(r"<!-- (install|run in a checkout) -->\n```console\n(.*?)```", re.DOTALL)
TIMEOUT_SECONDS = 900
RUN_SECONDS, RUN_MB = 45, 120
DEMO_SECONDS, DEMO_MB = 240, 900


def main() -> None:
    """Print the figures."""
    install, run, _ = (block for _, block in BLOCKS.findall((ROOT / "README.md").read_text()))
    clone = f"git clone --quiet {ROOT} tidemill; cd tidemill\n"
    with tempfile.TemporaryDirectory(prefix="tidemill-first-hour-") as scratch:
        warm, folder = Path(scratch, "warm"), Path(scratch, "new")
        typed(f"{clone}{install}make .venv/.aws", newcomer(warm))
        home = newcomer(folder)
        seconds = typed(f"{clone}{install}{run}", home)
        figure("first-hour-run-seconds", seconds, "s", RUN_SECONDS)
        figure("first-hour-run-mb", megabytes(folder / ".tidemill"), "MB", RUN_MB)
        seconds = typed("cd tidemill; make demo", home)
        figure("first-hour-demo-seconds", seconds, "s", DEMO_SECONDS)
        figure("first-hour-demo-mb", megabytes(folder / "tidemill" / ".venv"), "MB", DEMO_MB)


def newcomer(home: Path) -> dict[str, str]:
    """Return the environment of a user whose home folder is new and empty."""
    home.mkdir()
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    own = str(ROOT / ".venv" / "bin")
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != own)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("TIDEMILL_", "PULUMI_", "AWS_"))}
    env |= {"HOME": str(home), "XDG_CACHE_HOME": cache, "PATH": path}
    if go := shutil.which("go"):
        modules = subprocess.run([go, "env", "GOMODCACHE"], capture_output=True, text=True, timeout=60, check=True)
        env["GOMODCACHE"] = modules.stdout.strip()
    return env


def typed(commands: str, env: Mapping[str, str]) -> float:
    """Return how many seconds commands take in a shell, in the home folder; their output goes to a file."""
    shown = Path(env["HOME"], "shown.txt")
    started = time.perf_counter()
    with shown.open("wb") as output:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=env["HOME"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{commands}\nended with {done.returncode}:\n{shown.read_text(errors='replace')[-3000:]}")
    return time.perf_counter() - started


def megabytes(folder: Path) -> float:
    """Return the size of a folder on disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) / 1e6
