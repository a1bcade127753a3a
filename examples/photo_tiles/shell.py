"""What the demo types: commands, each printed before it runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
import time
from pathlib import Path

from ops.project import copy_project

ROOT = Path(__file__).resolve().parents[2]
QUIETLY = ("--yes", "--skip-preview", "--suppress-outputs", "--suppress-progress")
NOISE = re.compile(r"using pulumi-\S+ from \$PATH| (creating|deleting|updating) \(|^ *pulumi:pulumi:Stack \(|^@ ")
"""Lines of the engine that tell nothing: where its plugins are, and the beginning of what ends on another line."""
TIMEOUT_SECONDS = 180
STARTED = time.monotonic()


class DemoError(Exception):
    """A step did not do what the demo promises."""


def say(text: str) -> None:
    print(f"\n[{time.monotonic() - STARTED:5.1f} s] {text}", flush=True)


def run(
    env: dict[str, str],
    *command: str,
    show: bool = True,
    timeout: float = TIMEOUT_SECONDS,
    ok: tuple[int, ...] = (0,),
    cwd: Path = ROOT,
) -> str:
    """Runs a command; its output goes to the terminal, or comes back when `show` is off."""
    if show:
        print(f"$ {shlex.join(command)}", flush=True)
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=None if show else subprocess.PIPE,
        stderr=None if show else subprocess.PIPE,
        text=True,
        timeout=timeout,
        check=False,
    )
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
        self._show("up", *QUIETLY)

    def unchanged(self) -> None:
        """Previews the stack, and fails if there is a change."""
        self._show("preview", "--expect-no-changes", "--suppress-outputs", "--suppress-progress")

    def destroy(self) -> None:
        self._show("destroy", *QUIETLY, "--remove")

    def _show(self, *arguments: str) -> None:
        """Runs a command that takes a while, and shows its lines as they come, without the engine's noise."""
        command = ("pulumi", *arguments, "--stack", self._stack)
        print(f"$ {shlex.join(command)}", flush=True)
        with subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as engine:
            stop = threading.Timer(TIMEOUT_SECONDS, engine.kill)
            stop.start()
            for line in engine.stdout or ():
                if not NOISE.search(line):
                    print(re.sub(r" \d+ warnings?$", "", line), end="", flush=True)
            stop.cancel()
        if engine.returncode:
            raise DemoError(f"`{shlex.join(command)}` ended with {engine.returncode}")
