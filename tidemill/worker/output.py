"""Writes the programs' stdout and stderr, and the worker's own messages, as JSON lines to the worker's stdout."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import IO, Any, Protocol

ITEM_BYTES = 64 * 1024
"""Bytes of an item's output that are passed on, half from its start and half from its end; logs are billed by size."""
LINE_BYTES = 12 * 1024
"""With its labels a line stays below the 16 KiB at which Docker cuts it in two."""
TAIL_BYTES = 4096
_lock = threading.Lock()


_file: IO[bytes] | None = None
_item_bytes = ITEM_BYTES
Sink = Callable[[list[tuple[dict[str, Any], int]]], None]
_sink: Sink | None = None
_queue: dict[str, str] = {}
_redacted: tuple[str, ...] = ()
LEAST_REDACTED = 6
"""Characters: a shorter value would be found in too much that is no secret."""
REDACTED = "***"
CUT = "..."
"""Begins what is left of a longer text."""


def write_to(file: IO[bytes]) -> None:
    """Write lines to a file, each with the time, instead of to stdout, where the cloud's log puts the time itself."""
    global _file  # noqa: PLW0603 a process has one log
    _file = file


def also_to(sink: Sink | None) -> None:
    """Hand every line to a sink too, with its size in bytes; None for no longer. It must not wait."""
    global _sink  # noqa: PLW0603 a process has one log
    _sink = sink


def limit_items(size: int) -> None:
    """How many bytes of an item's output are passed on."""
    global _item_bytes  # noqa: PLW0603 a process has one log
    _item_bytes = size


def redact(values: Iterable[str]) -> None:
    """From now on no line and no error of an item shows these values, nor a line of one."""
    global _redacted  # noqa: PLW0603 a process has one log
    parts = {part for value in values for part in (value, *value.splitlines()) if len(part) >= LEAST_REDACTED}
    # The longest first, so that no rest of it stays.
    _redacted = tuple(sorted(parts.union(_redacted), key=len, reverse=True))


def redacted(text: str) -> str:
    """A text without the values of secrets."""
    for value in _redacted:
        text = text.replace(value, REDACTED)
    return text


def _redacted_bytes(data: bytearray) -> bytearray:
    for value in _redacted:
        data = data.replace(value.encode(), REDACTED.encode())
    return data


def redacted_end(text: str) -> str:
    """The end of a longer text, which may begin within a secret, without the values of secrets."""
    text = redacted(text)
    mark = CUT if text.startswith(CUT) else ""
    end = text.removeprefix(mark).lstrip("\ufffd")
    for value in _redacted:
        if rest := next((n for n in range(len(value) - 1, LEAST_REDACTED - 1, -1) if end.startswith(value[-n:])), 0):
            return f"{mark}{REDACTED}{end[rest:]}"
    return text


def emit(lines: list[dict[str, Any]]) -> None:
    if _redacted:
        lines = [{key: redacted(it) if isinstance(it, str) else it for key, it in line.items()} for line in lines]
    stamp = {} if _file is None else {"at": round(time.time(), 3)}
    texts = [json.dumps(stamp | line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines]
    data = "".join(texts)
    with _lock:
        file = _file or sys.stdout.buffer
        # A log that cannot be written (its disk is full, its reader is gone) must not cost an item its outcome.
        with suppress(OSError):
            file.write(data.encode("utf-8", "replace"))
            file.flush()
        if _sink is not None:
            _sink([(line, len(text)) for line, text in zip(lines, texts, strict=True)])


def log(message: str, level: str = "info", **fields: Any) -> None:
    emit([{"level": level, **fields, "message": message}])


def serve(queue: str) -> None:
    """Name the queue that this process serves; every event carries it."""
    _queue.clear()
    if queue:
        _queue["queue"] = queue


def log_event(name: str, message: str, level: str = "info", **fields: Any) -> None:
    """A line that the stack's metrics count: they select it by ``event`` and group it by ``queue``."""
    log(message, level, event=name, **_queue, **fields)


class LineWatch(Protocol):
    """Looks at what an item prints."""

    def look(self, lines: Sequence[str], attempt: int) -> None:
        """Look at lines of an attempt; its output waits meanwhile."""

    def end(self, attempt: int) -> None:
        """The attempt has ended."""


class ItemOutput:
    """The output of one item, over all its attempts. Every line carries its labels, and `watch` looks at it."""

    def __init__(self, labels: dict[str, Any], watch: LineWatch | None = None) -> None:
        self._labels, self._watch = labels, watch
        self._limit = _item_bytes
        self._left = self._room = self._limit // 2
        self._dropped = 0
        self._last: deque[tuple[int, dict[str, Any]]] = deque()
        """What is passed on when the item has ended, with its size."""
        self._partial = {"stdout": bytearray(), "stderr": bytearray()}
        self._tail = bytearray()
        self._attempt = 1

    def begin(self, attempt: int) -> None:
        self._attempt = attempt
        self._tail.clear()

    def feed(self, stream: str, data: bytes) -> None:
        """Bytes that the program wrote to ``stdout`` or ``stderr``."""
        if stream == "stderr":
            self._tail += data
            del self._tail[:-TAIL_BYTES]
        partial = self._partial[stream]
        partial += data
        *lines, rest = partial.split(b"\n")
        # Whole secrets go on together: what follows a cut is at least as long as one.
        longest = max((len(value.encode()) for value in _redacted), default=0)
        if longest and len(rest) > LINE_BYTES + longest:
            rest = _redacted_bytes(rest)
        while len(rest) > LINE_BYTES + longest:
            lines.append(rest[:LINE_BYTES])
            rest = rest[LINE_BYTES:]
        self._partial[stream] = bytearray(rest)
        self._pass_on(stream, [bytes(line) for line in lines])

    def end(self) -> None:
        """The attempt ended: pass on an unfinished line too."""
        for stream, rest in self._partial.items():
            if rest:
                self._pass_on(stream, [bytes(rest)])
                self._partial[stream] = bytearray()
        if self._watch:
            self._watch.end(self._attempt)

    def close(self) -> None:
        """The item ended: say what was cut, and pass on what came last."""
        lines = [line for _, line in self._last]
        if self._dropped:
            text = f"output cut: {self._dropped} bytes beyond {self._limit} were dropped here"
            lines.insert(0, self._line("stdout", text, cut=True))
        if lines:
            emit(lines)
        self._last.clear()

    def tail(self) -> str:
        return redacted_end(self._tail.decode("utf-8", "replace")).strip()

    def _pass_on(self, stream: str, lines: list[bytes]) -> None:
        passed = []
        texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
        for line, text in zip(lines, texts, strict=True):
            size = len(line) + 1
            labelled = self._line(stream, text)
            if size <= self._left and not self._last:
                self._left -= size
                passed.append(labelled)
                continue
            self._last.append((size, labelled))
            self._room -= size
            while self._room < 0:
                dropped, _ = self._last.popleft()
                self._dropped += dropped
                self._room += dropped
        if passed:
            emit(passed)
        if self._watch:
            self._watch.look(texts, self._attempt)

    def _line(self, stream: str, message: str, **fields: Any) -> dict[str, Any]:
        return {**self._labels, "attempt": self._attempt, "stream": stream, **fields, "message": message}
