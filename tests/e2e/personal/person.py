"""A person who has installed both distributions, with an account and without this repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ops.processes import end_session
from tests.distributions import build, install
from tests.warm import warmed

TIMEOUT_SECONDS = 600
EMAIL = "ada@example.com"
COUNT = 'wc -c < "$TIDEMILL_INPUT" > "$TIDEMILL_OUTPUT/bytes.txt"'


def installed(folder: Path) -> Path:
    """The `tidemill` of an environment with both wheels."""
    wheels = [each for each in build(folder / "dist") if each.suffix == ".whl"]
    return install(wheels, folder / "environment").with_name("tidemill")


class Person:
    """Somebody at a laptop.

    Args:
        tidemill: The program.
        env: The environment of a cloud's owner.
        home: Their home folder.
    """

    def __init__(self, tidemill: Path, env: Mapping[str, str], home: Path, name: str = "ada") -> None:
        theirs = ("PYTHON", "TIDEMILL_PIPELINE", "PULUMI_BACKEND_URL", "PULUMI_CONFIG_PASSPHRASE")
        ours = {key: value for key, value in warmed(env).items() if not key.startswith(theirs)}
        self.env = {**ours, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
        self.name, self.home, self._tidemill = name, home, tidemill
        home.mkdir(parents=True, exist_ok=True)

    @property
    def folder(self) -> Path:
        return self.home / ".config" / "tidemill" / "personal"

    @contextmanager
    def edited(self, before: str, after: str) -> Iterator[None]:
        """The stack file with a text in place of another, while the block runs."""
        file = self.folder / f"Pulumi.{self.name}-personal.yaml"
        good = file.read_text()
        assert before in good
        file.write_text(good.replace(before, after, 1))
        try:
            yield
        finally:
            file.write_text(good)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Type a command; the caller must end its session."""
        return subprocess.Popen(
            [str(self._tidemill), *arguments],
            cwd=self.home,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def tidemill(self, *arguments: str, code: int = 0) -> str:
        """Type a command, and return what it printed."""
        process = self.start(*arguments)
        try:
            printed, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            end_session(process)
        assert process.returncode == code, printed
        assert "Traceback" not in printed
        return printed

    def count_bytes(self, folder: Path) -> None:
        """Run a job over three files, and check what it says of each."""
        for number in range(3):
            (folder / f"{number}.txt").write_text("x" * (number + 1))
        self.tidemill("submit", "--name", "first", "--items", str(folder), "--shell", "--", COUNT)
        self.tidemill("wait", "first")
        self.tidemill("fetch", "first", "-o", str(folder / "out"))
        found = sorted(path.read_text().strip() for path in (folder / "out").rglob("bytes.txt"))
        assert found == ["1", "2", "3"]

    def up(self, *arguments: str, code: int = 0) -> str:
        return self.tidemill("up", "--name", self.name, "--yes", *arguments, code=code)

    def down(self, *arguments: str, code: int = 0) -> str:
        return self.tidemill("down", "--name", self.name, *arguments, code=code)

    def stopped_at(self, line: str, number: signal.Signals, *arguments: str) -> str:
        """Type a command, and send it and what it started a signal when a line begins so. Returns the output."""
        process = self.start(*arguments)
        assert process.stdout is not None
        printed = ""
        try:
            for each in process.stdout:
                printed += each
                if each.strip().startswith(line):
                    os.killpg(process.pid, number)
                    break
            else:
                raise AssertionError(f"no {line} in:\n{printed}")
            if number == signal.SIGINT:
                printed += process.communicate(timeout=TIMEOUT_SECONDS)[0]
        finally:
            end_session(process)
        return printed


def changes(printed: str) -> Any:
    """The changes in the document that `up --json` prints last."""
    return json.loads(printed.splitlines()[-1])["changes"]
