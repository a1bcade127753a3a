"""Enters another root like a container: namespaces, /proc, the devices, and everything that is bound into it.

It leaves out cgroups, seccomp, capabilities, and a network of its own.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SECONDS = 120
DEVICES = ("null", "urandom")


@dataclass
class Root:
    """A root for a container.

    Attributes:
        folder: What it holds.
        binds: Folders of this machine by where they are shown in it; writable.
        shown: The same, read-only.
        user: Id of the container's user.
        readonly: Whether the root itself is.
    """

    folder: Path
    binds: Mapping[str, Path] = field(default_factory=dict)
    shown: Mapping[str, Path] = field(default_factory=dict)
    user: int = 0
    readonly: bool = True

    def run(self, command: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program in it to its end; everything it leaves behind ends with it."""
        script = "\n".join(["set -e", *self._mounts(), f"exec {shlex.join(self._enter(command, env))}"])
        kinds = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
        return subprocess.run(
            ["unshare", *kinds, "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def _mounts(self) -> list[str]:
        """Shell lines. Mount points are made here, as a container runtime makes them."""
        root = shlex.quote(str(self.folder))
        lines = [f"mount --bind {root} {root}", f"cd {root}"]
        for name in ("proc", "dev"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        lines.append("mount -t proc proc proc 2>/dev/null || mount --rbind /proc proc")
        for name in DEVICES:
            (self.folder / "dev" / name).touch()
            lines.append(f"mount --bind /dev/{name} dev/{name}")
        for target, source in {**self.binds, **self.shown}.items():
            inside = target.lstrip("/")
            (self.folder / inside).mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind {shlex.quote(str(source))} {shlex.quote(inside)}")
            if target in self.shown:
                lines.append(f"mount -o remount,bind,ro {shlex.quote(inside)}")
        if self.readonly:
            lines.append(f"mount -o remount,bind,ro {root}")
        return lines

    def _enter(self, command: Sequence[str], env: Mapping[str, str]) -> list[str]:
        program = shutil.which("unshare")
        assert program is not None
        user = ["--user", f"--map-user={self.user}", f"--map-group={self.user}"]
        variables = [f"{name}={value}" for name, value in env.items()]
        return ["env", "-i", *variables, program, *user, f"--root={self.folder}", "--wd=/", *command]


START = ["/tidemill/tidemill-worker", "start"]


def run_chunk(root: Root, team, command: list[str], start: list[str] = START, **env: str):
    """Run a worker on a job of two items in the root. Answers the job, the exit code and the log."""
    items = []
    for number in range(2):
        path = team.root / "items" / str(number)
        path.write_text(f"item {number}")
        items.append(str(path))
    job = team.job(items, command)
    environment = job.environment(**env)
    done = root.run(start, environment)
    return job, environment, done
