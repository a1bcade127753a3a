"""Waits for what another process or thread does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECONDS = 300.0
"""The longest wait for anything: a busy machine may take long, a sound one never waits for it."""


def until(look: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Check repeatedly until the answer is true, and return it.

    Raises:
        AssertionError: It never was; the message has the last answer.
    """
    end = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < end, f"still {seen!r} after {seconds} s"
        time.sleep(0.02)
    return seen


def sleeping(seconds: int) -> list[str]:
    """Processes of this machine that sleep for so many seconds."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes().replace(b"\0", b" ").decode().strip())
    return [line for line in found if line == f"sleep {seconds}"]
