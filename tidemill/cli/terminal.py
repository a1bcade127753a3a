"""A terminal that is read key by key, and is as it was afterwards."""

from __future__ import annotations

import os
import select
import signal
import sys
from types import FrameType, TracebackType
from typing import Any

_KEYS = {
    b"q": "q",
    b"Q": "q",
    b"\x03": "q",
    b"j": "down",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"k": "up",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
}
"""Arrows are sent in two forms: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html#h3-PC-Style-Function-Keys."""
_ENDS = ("SIGTERM", "SIGHUP")


class Keys:
    """The keys of standard input within a block; none where it is not a terminal.

    Ctrl-C is a key like any other. SIGTERM and SIGHUP end the process when the block has ended, so that whatever else
    must be undone is.
    """

    def __init__(self) -> None:
        self._terminal: tuple[int, list[Any]] | None = None
        self._handlers: dict[int, Any] = {}
        self._signal = 0

    def __enter__(self) -> Keys:
        for name in _ENDS:
            if number := getattr(signal, name, None):
                self._handlers[number] = signal.signal(number, self._ended)
        if sys.stdin.isatty():
            # Windows does not have them.
            import termios
            import tty

            fd = sys.stdin.fileno()
            self._terminal = fd, termios.tcgetattr(fd)
            # Ctrl-C arrives as a key, and Ctrl-Z cannot leave the terminal without its lines.
            tty.setraw(fd, termios.TCSADRAIN)
            mode = termios.tcgetattr(fd)
            mode[1] |= termios.OPOST
            termios.tcsetattr(fd, termios.TCSADRAIN, mode)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._terminal:
            import termios

            termios.tcsetattr(self._terminal[0], termios.TCSADRAIN, self._terminal[1])
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if self._signal:
            signal.signal(self._signal, signal.SIG_DFL)
            os.kill(os.getpid(), self._signal)

    def read(self, seconds: float) -> str:
        """`q`, `up`, `down`, or nothing for any other key and after so many seconds."""
        if self._signal:
            return "q"
        wanted = [self._terminal[0]] if self._terminal else []
        if not select.select(wanted, [], [], seconds)[0]:
            return "q" if self._signal else ""
        typed = os.read(wanted[0], 64)
        # The end of the input is a terminal that has gone.
        return _KEYS.get(typed, _KEYS.get(typed[:1], "")) if typed else "q"

    def _ended(self, number: int, frame: FrameType | None) -> None:
        self._signal = number
