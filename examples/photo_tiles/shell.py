"""What the demo types: commands, each printed before it runs."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

from ops.project import copy_project
from ops.told import without_noise

ROOT = Path(__file__).resolve().parents[2]
QUIETLY = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress")
STARTED = time.monotonic()


class DemoError(Exception):
    """A step did not do what the demo promises."""


def say(text: str) -> None:
    print(f"\n[{time.monotonic() - STARTED:5.1f} s] {text}", flush=True)


def run(
    env: dict[str, str],
    *command: str,
    show: bool = True,
    timeout: float = 180,
    ok: tuple[int, ...] = (0,),
    cwd: Path = ROOT,
) -> str:
    """Runs a command; its output goes to the terminal, or comes back when `show` is off."""
    if show:
        print(f"$ {shlex.join(command)}", flush=True)
    engine = command[0] == "pulumi"
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=None if show else subprocess.PIPE,
        stderr=None if show and not engine else subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
    if show and engine:
        print(without_noise(done.stderr), end="", file=sys.stderr, flush=True)
    if done.returncode not in ok:
        raise DemoError(f"`{shlex.join(command)}` ended with {done.returncode}\n{done.stdout or ''}{done.stderr or ''}")
    return done.stdout or ""


class Pulumi:
    """The platform team's shell: `pulumi` in a copy of the project, which its commands may write to."""

    def __init__(self, env: dict[str, str], folder: Path, stack: str) -> None:
        folder.mkdir()
        self._env, self._stack, self._folder = env, stack, copy_project(folder, stack)

    def __call__(self, *command: str, show: bool = True) -> str:
        return run(self._env, "pulumi", *command, "--stack", self._stack, show=show, cwd=self._folder)

    def up(self) -> None:
        self("up", *QUIETLY)

    def destroy(self) -> None:
        self("destroy", *QUIETLY, "--remove")
