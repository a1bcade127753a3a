"""Calls a user's function in the image's own Python: standard library only, Python 3.8 and later.

It is handed to `python3 -c` as text, so it imports nothing of ours and leaves no folder of ours on the user's path.
It reads JSON lines from one pipe and writes JSON lines to another; stdout and stderr are files of the slot.

    first    {"function": "module:name", "path": [folders for sys.path], "values": folder for values,
              "items": null, or what an item's text, which is JSON, becomes: json, tuple, arguments or module:class;
              or file, of which the text is the name}
    answer   ["ready", [names of the values that the function takes]] or ["failed", traceback]
    then     a list of items, each an object of values (uri, index, meta, input, output, output_uri)
    answers  an item a line, at once:
             [n, error or null, exit code, wall s, CPU s, peak KiB, end of stdout, end of stderr, value or null,
             name of the file in the folder for values that holds the value, or null]
             An error with exit code 0 says that the value cannot be kept.

The worker removes files of values when it has sent them. The next file waits while there are many.
"""

import contextlib
import functools
import importlib
import inspect
import json
import os
import pathlib
import signal
import sys
import threading
import time
import traceback
import types

VALUES = ("uri", "index", "meta", "input", "output", "output_uri")
VALUE_BYTES = 4096
VALUE_LEVELS = 100
VALUE_FILE_BYTES = 64 << 20
VALUE_FILES = 16
ERROR_BYTES = 8192
LOOK_SECONDS = 0.01
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
LAZY = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
NOT_RUN = (
    "the function returned a %s, and none of its code has run: with `yield` or `async def`, a function begins when its "
    "caller iterates or awaits. Return a value, such as a list."
)


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
        names, positional = _parameters(function, told["items"])
        arguments = _arguments(told["items"])
    except BaseException:  # whatever an import raises, SystemExit included
        _answer(answers, ["failed", _traceback()])
        return
    fetched = ["input"] if told["items"] == "file" else []
    _answer(answers, ["ready", ["uri", *fetched, *names] if positional else names])
    call = functools.partial(_called, function, arguments if positional else None, names)
    peak = _Peak()
    while True:
        for n, values in enumerate(json.loads(lines.next())):
            keep = _Keep(os.path.join(told["values"], str(n)), values)
            _answer(answers, [n, *_one(call, values, peak, keep)])


def _called(function, arguments, names, values):
    named = {name: values[name] for name in names}
    return function(*arguments(values), **named) if arguments else function(**named)


def _arguments(items):
    """Make a function's arguments of an item's values."""
    known = {
        None: lambda values: (values["uri"],),
        "json": lambda values: (json.loads(values["uri"]),),
        "tuple": lambda values: (tuple(json.loads(values["uri"])),),
        "arguments": lambda values: json.loads(values["uri"]),
        "file": lambda values: (_read(values["input"]),),
    }
    if items in known:
        return known[items]
    kind = _find(items)

    def one(values):
        fields = json.loads(values["uri"])
        return (kind(**fields) if isinstance(fields, dict) else kind(*fields),)

    return one


def _read(path):
    """An array or bytes that were sent as a file."""
    if path.endswith(".npy"):
        return importlib.import_module("numpy").load(path, allow_pickle=False)
    with open(path, "rb") as file:
        return file.read()


def _one(call, values, peak, keep):
    wall, cpu = time.monotonic(), _cpu_seconds()
    error, code, value, file = None, 0, None, None
    try:
        returned = call(values)
        if isinstance(returned, LAZY):
            raise _CannotKeepError(NOT_RUN % type(returned).__name__)
        value, file = keep(returned)
    except _CannotKeepError as cannot:
        error = str(cannot)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            code = stop.code if isinstance(stop.code, int) else 1
            error = _traceback()
    except BaseException:  # an item's exception is its outcome, whatever it is
        error, code = _traceback(), 1
        with contextlib.suppress(Exception):  # the function may have closed or replaced it
            print(error, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        # Another item may have filled the disk, and the function may have closed or replaced it.
        with contextlib.suppress(Exception):
            stream.flush()
    took = time.monotonic() - wall
    used = _cpu_seconds() - cpu
    return [error, code, round(took, 6), round(used, 6), peak.look(took), _end(1), _end(2), value, file]


def _find(text):
    module, _, name = text.partition(":")
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    if not callable(value):
        raise TypeError(f"{text} is not callable")
    return value


def _parameters(function, items):
    """The values that a function takes by name, and whether it takes the item as a positional argument."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [], True
    if items is not None:
        # Whatever its name, the first parameter is for the value; several of them, for several.
        others = parameters if items == "arguments" else parameters[1:]
        kinds = (inspect.Parameter.KEYWORD_ONLY,) if items == "arguments" else _BY_NAME
        return [p.name for p in others if p.name in VALUES[1:] and p.name != "input" and p.kind in kinds], True
    named = [p.name for p in parameters if p.name in VALUES and p.kind in _BY_NAME]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    others = [p for p in needed if p.name not in named]
    if not others and named:
        return named, False
    if len(others) > 1 or named:
        needs, given = ", ".join(p.name for p in others), ", ".join(VALUES)
        raise TypeError(f"the function needs {needs}; it can be given one argument, or any of {given}")
    return [], True


class _CannotKeepError(Exception):
    """The function's value cannot be kept, however often the function is called."""


class _Keep:
    """Keeps the whole value: short JSON in the record, all else in a file of a folder."""

    def __init__(self, folder, values):
        self._folder, self._values = folder, values

    def __call__(self, value):
        numpy = sys.modules.get("numpy")
        if isinstance(value, (bytes, bytearray, memoryview)):
            return None, self._write("value.bin", bytes(value), lambda file, data: file.write(data))
        if numpy is not None and isinstance(value, numpy.ndarray) and value.shape != ():
            if value.dtype.hasobject:
                raise _CannotKeepError("the function returned a NumPy array of Python objects; give it another dtype")
            save = numpy.save
            return None, self._write("value.npy", value, lambda file, array: save(file, array, allow_pickle=False))
        text = self._json(value)
        if len(text) <= VALUE_BYTES and not is_deep(value):
            try:
                return json.loads(text, parse_constant=_refuse), None
            except ValueError:  # NaN and the infinities are Python's, not JSON's
                pass
        return None, self._write("value.json", text.encode(), lambda file, data: file.write(data))

    def _json(self, value):
        try:
            text = json.dumps(value, default=self._plain, skipkeys=True)
            if _has_odd_key(value):
                raise TypeError("it has a key that is not a text")
            return text
        except (TypeError, ValueError, RecursionError) as error:
            raise _CannotKeepError(
                f"what the function returned ({type(value).__name__}) cannot be kept: {error}. Return JSON values with "
                "texts as keys, bytes, a NumPy array, or the pathlib.Path of a file in the item's output folder."
            ) from None

    def _plain(self, value):
        """The path of an output file as the URI that it will have, and a number of NumPy as one of Python."""
        if isinstance(value, pathlib.PurePath):
            return self._uri(pathlib.Path(os.path.normpath(str(value))))
        return _number(value)

    def _uri(self, path):
        folder = self._values.get("output")
        if folder is None or pathlib.Path(folder) not in path.parents:
            raise TypeError(f"{path} is not in the item's output folder, and is lost with its machine")
        if not path.is_file():
            raise TypeError(f"{path} is not a file")
        return self._values["output_uri"] + path.relative_to(folder).as_posix()

    def _write(self, name, value, write):
        size = getattr(value, "nbytes", None) or len(value)
        if size > VALUE_FILE_BYTES:
            raise _CannotKeepError(
                f"the function returned {size >> 20} MiB, and a value may have {VALUE_FILE_BYTES >> 20}. Write a file "
                "into the item's output folder and return the file's pathlib.Path."
            )
        os.makedirs(self._folder, exist_ok=True)
        while len(os.listdir(os.path.dirname(self._folder))) > VALUE_FILES:
            time.sleep(LOOK_SECONDS)
        with open(os.path.join(self._folder, "tidemill-" + name), "wb") as file:
            write(file, value)
        return "tidemill-" + name


def _number(value):
    """A number of NumPy as one of Python."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    raise TypeError(f"JSON has no value of type {type(value).__name__}")


def _refuse(text):
    raise ValueError(text[:9])


def _has_odd_key(value):
    """True if a dict in it has a key that is not a text: JSON would silently turn 1 into "1"."""
    if isinstance(value, dict):
        return not all(isinstance(key, str) for key in value) or any(map(_has_odd_key, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_odd_key, value))


def is_deep(value):
    """True if a value is nested deeper than every reader of JSON can follow."""
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
