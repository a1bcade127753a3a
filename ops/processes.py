"""Runs a command together with everything that it starts."""

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_GRACE_SECONDS = 10


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    stdout: IO[bytes] | None = None,
    stderr: IO[bytes] | None = None,
    grace: float | None = None,
) -> int:
    """Run a command on this terminal, or with its output in files, and return its exit code.

    The engine starts a language host and providers. They run in a session of their own, which is ended on every path: a
    provider that is left over blocks the terminal.

    Args:
        grace: Seconds for the command to end after Ctrl-C. A second Ctrl-C kills it.

    Raises:
        subprocess.TimeoutExpired: It took longer than `timeout` seconds.
        FileNotFoundError: The command is not on the PATH of `env`.
    """
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        return process.wait(timeout)
    except KeyboardInterrupt:
        # The engine then finishes the steps it has begun and releases the stack's lock.
        os.killpg(process.pid, signal.SIGINT)
        process.wait(_GRACE_SECONDS if grace is None else grace)
        raise
    finally:
        end_session(process)


def output(command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float) -> tuple[int, str]:
    """Run a command and return its exit code and output; if it failed, stderr too.

    Raises:
        subprocess.TimeoutExpired, FileNotFoundError: as `run`.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = run(command, cwd=cwd, env=env, timeout=timeout, stdout=out, stderr=err)
        out.seek(0)
        err.seek(0)
        return code, (out.read() + (err.read() if code else b"")).decode(errors="replace")


def end_session(process: subprocess.Popen) -> None:
    """Kill whatever is left of a process that leads a session, and reap it.

    The engine puts each plugin into a process group of its own, so its own group is not enough.
    """
    for pid in {process.pid, *_members(process.pid)}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(os.getpgid(pid), signal.SIGKILL)
    process.wait()


def _members(session: int) -> list[int]:
    """List the processes of a session; empty where there is no /proc."""
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(entry.name)) == session:
                members.append(int(entry.name))
    return members
