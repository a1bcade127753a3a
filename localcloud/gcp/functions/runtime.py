"""Serves a function's entry point. It runs as a script in the folder of the source; argument: entry point.

It imports only the standard library. It takes one call at a time, like a function with a concurrency of 1.
A function's prints go to this script's output, as does the traceback of one that raises; the answer is then 500.
"""

import importlib
import json
import os
import sys
import traceback
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class FunctionRequest:
    """The argument of an entry point."""

    def __init__(self, method: str, headers: dict[str, str], data: bytes) -> None:
        self.method, self.headers, self.data = method, headers, data


def answer(result: Any) -> tuple[bytes, int, dict[str, str]]:
    """Body, status and headers of an entry point's result: a body, or a tuple with status and headers."""
    parts = result if isinstance(result, tuple) else (result,)
    body = json.dumps(parts[0]) if isinstance(parts[0], dict | list) else parts[0]
    status = parts[1] if len(parts) > 1 else 200
    headers = dict(parts[2]) if len(parts) > 2 else {}
    return body.encode() if isinstance(body, str) else body, status, headers


def main() -> None:
    """Import the source, then serve until the process is ended."""
    sys.path.insert(0, os.getcwd())
    entry = getattr(importlib.import_module("main"), sys.argv[1])

    class FunctionHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                body, status, headers = answer(entry(FunctionRequest(self.command, dict(self.headers.items()), data)))
            except Exception:
                traceback.print_exc()
                body, status, headers = b"Internal Server Error", 500, {}
            sys.stdout.flush()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class has it so
            """Calls are the caller's to log."""

    HTTPServer(("127.0.0.1", int(os.environ["PORT"])), FunctionHandler).serve_forever()


main()
