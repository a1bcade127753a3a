"""What the daemons of both clouds share: reading their options, serving and ending."""

from __future__ import annotations

import argparse
import gc
import http.client
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO, Protocol

BOUND = "--until-stdin-closes"
"""Option of this module: a daemon with it ends when the process that holds the other end of its stdin does."""


class Daemon(Protocol):
    """An emulated cloud while it is served."""

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        ...

    def stop(self) -> None:
        """End everything that it started."""
        ...


def yes(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def serve(start: Callable[[argparse.Namespace], Daemon], options: argparse.Namespace) -> None:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        daemon = start(options)
    except OSError as error:
        print(f"localcloud: --state {options.state} --port {options.port}: {error}", file=sys.stderr)
        sys.exit(2)
    print(f"localcloud: http://127.0.0.1:{daemon.port}, state in {options.state}", flush=True)
    ended.wait()
    daemon.stop()
    sys.stdout.flush()
    sys.stderr.flush()
    # A helper thread that still waits for a client must not keep the process alive.
    os._exit(0)


def read_headers(
    file: BinaryIO, _class: type[http.client.HTTPMessage] = http.client.HTTPMessage
) -> http.client.HTTPMessage:
    """Read the headers of a request or an answer. The email package, which would, takes a tenth of a request's time."""
    headers = _class()
    while (line := file.readline(65537)) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name] = value.lstrip(" \t").rstrip("\r\n")
    return headers


def _end_with_stdin() -> None:
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the daemon module that the first argument names.

    A garbage collection over moto's imports takes as long as the imports themselves.
    """
    if sys.argv[1] == BOUND:
        sys.argv.pop(1)
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    http.client.parse_headers = read_headers  # type: ignore[assignment]
    gc.disable()
    module = importlib.import_module(sys.argv.pop(1))
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    gc.enable()
    module.main()


if __name__ == "__main__":
    main()
