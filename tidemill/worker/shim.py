"""Calls a user's function in the image's own Python: standard library only, Python 3.8 and later.

It is handed to `python3 -c` as text, so it imports nothing of ours and leaves no folder of ours on the user's path.
It reads JSON lines from one pipe and writes JSON lines to another; stdout and stderr are files of the slot.

    first    {"function": "module:name", "path": [folders for sys.path]}
    answer   ["ready", [names of the values that the function takes]] or ["failed", traceback]
    then     a list of items, each an object of values (uri, index, meta, input, output, output_uri)
    answers  an item a line, at once:
             [n, error or null, exit code, wall s, CPU s, peak KiB, end of stdout, end of stderr, value or null]
"""

import importlib
import inspect
import json
import os
import signal
import sys
import threading
import time
import traceback

VALUES = ("uri", "index", "meta", "input", "output", "output_uri")
VALUE_BYTES = 4096
VALUE_LEVELS = 100
ERROR_BYTES = 8192
LOOK_SECONDS = 0.01


def main(requests, answers):
    """Serve until the worker closes the pipe, which ends this process wherever it is."""
    lines = _Lines(os.fdopen(requests, "rb"))
    told = json.loads(lines.next())
    sys.path[:1] = told["path"]
    sys.argv = [told["function"]]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[attr-defined]
    try:
        function = _find(told["function"])
        names, positional = _parameters(function)
    except BaseException:  # whatever an import raises, SystemExit included
        _answer(answers, ["failed", _traceback()])
        return
    wanted = ["uri"] if positional else names
    _answer(answers, ["ready", wanted])
    peak = _Peak()
    while True:
        for n, values in enumerate(json.loads(lines.next())):
            _answer(answers, [n, *_one(function, names, positional, values, peak)])


def _one(function, names, positional, values, peak):
    wall, cpu = time.monotonic(), _cpu_seconds()
    error, code, value = None, 0, None
    try:
        given = {name: values[name] for name in names}
        value = function(values["uri"]) if positional else function(**given)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            code = stop.code if isinstance(stop.code, int) else 1
            error = _traceback()
    except BaseException:  # an item's exception is its outcome, whatever it is
        error, code = _traceback(), 1
    sys.stdout.flush()
    sys.stderr.flush()
    took = time.monotonic() - wall
    used = _cpu_seconds() - cpu
    return [error, code, round(took, 6), round(used, 6), peak.look(took), _end(1), _end(2), _kept(value)]


def _find(text):
    module, _, name = text.partition(":")
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{text} is not callable")
    return found


def _parameters(function):
    """The values that a function takes by name; or that it takes the item as its one positional argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [], True
    named = [p.name for p in parameters if p.name in VALUES and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    others = [p for p in needed if p.name not in named]
    if not others and named:
        return named, False
    if len(others) > 1 or named:
        needs, given = ", ".join(p.name for p in others), ", ".join(VALUES)
        raise TypeError(f"the function needs {needs}; it can be given one argument, or any of {given}")
    return [], True


def _kept(value):
    """What a function returned, where every reader of JSON can take it: few bytes, few levels, no NaN."""
    if value is None:
        return None
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return value if len(text) <= VALUE_BYTES and not is_deep(value) else None


def is_deep(value):
    """Whether a value is nested deeper than every reader of JSON can follow."""
    level = [value]
    for _ in range(VALUE_LEVELS):
        level = [
            part
            for one in level
            if isinstance(one, (dict, list, tuple))
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True


def _cpu_seconds():
    used = os.times()
    return used[0] + used[1] + used[2] + used[3]


def _end(descriptor):
    try:
        return os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError:
        return 0


def _traceback():
    kind, error, trace = sys.exc_info()
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(kind, error, trace)).strip()
    return text if len(text) <= ERROR_BYTES else "..." + text[-ERROR_BYTES:]


def _is_ours(file):
    return file == "<string>" or file.startswith("<frozen importlib") or file == importlib.__file__


class _Peak:
    """Peak memory of this process so far, in KiB; looked up when an item took long enough to have changed it."""

    def __init__(self):
        self._known = 0
        self._at = 0.0

    def look(self, took):
        now = time.monotonic()
        if took > LOOK_SECONDS or now - self._at > 1.0 or not self._known:
            self._at = now
            try:
                with open("/proc/self/status", "rb") as file:
                    for line in file:
                        if line.startswith(b"VmHWM:"):
                            self._known = int(line.split()[1])
                            break
            except OSError:
                pass
        return self._known


class _Lines:
    """The worker's lines, read by a thread that ends this process and its group when the worker is gone."""

    def __init__(self, source):
        self._source = source
        self._line = b""
        self._ready = threading.Semaphore(0)
        self._taken = threading.Semaphore(1)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        while True:
            self._taken.acquire()
            self._line = self._source.readline()
            if not self._line:
                try:
                    os.killpg(os.getpid(), signal.SIGKILL)
                finally:
                    os._exit(1)
            self._ready.release()

    def next(self):
        self._ready.acquire()
        line = self._line
        self._taken.release()
        return line


def _answer(descriptor, message):
    data = (json.dumps(message) + "\n").encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
