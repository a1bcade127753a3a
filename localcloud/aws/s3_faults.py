"""A front before S3 that fails on request, in the ways in which a write's answer misleads its client.

409 ConditionalRequestConflict means that nothing was written and that the client should try again:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html. After a 500 or a dropped connection the
object may have been written.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

from localcloud.aws.errors import ApiError
from localcloud.aws.wsgi import DropConnectionError, Environ, StartResponse, WsgiApp

ANSWERS = ("409", "500-after", "drop", "drop-after")
WRITES = {"500-after", "drop-after"}


@dataclass
class Fault:
    """What is still to be failed."""

    match: re.Pattern[str]
    answer: str
    left: int
    hits: int = 0


class S3Faults:
    """WSGI app: S3, or the fault that the request's ``METHOD key`` matches."""

    def __init__(self, s3: WsgiApp) -> None:
        self._s3 = s3
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def control(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """Add a fault, or end them all, and tell what each has done.

        Args:
            request: ``match`` (regular expression, searched in ``METHOD key``), ``answer`` (409, 500-after, drop,
                drop-after) and ``times`` (default 1); or ``{"clear": true}``; or nothing.
        """
        with self._lock:
            if request.get("clear"):
                self._faults.clear()
            elif request:
                if request["answer"] not in ANSWERS:
                    raise ValueError(f"answer {request['answer']!r} is none of {', '.join(ANSWERS)}")
                self._faults.append(
                    Fault(re.compile(request["match"]), request["answer"], int(request.get("times", 1)))
                )
            return [
                {"match": f.match.pattern, "answer": f.answer, "left": f.left, "hits": f.hits} for f in self._faults
            ]

    def __call__(self, environ: Environ, start_response: StartResponse) -> Any:
        fault = self._take(environ) if self._faults else None
        if fault is None:
            return self._s3(environ, start_response)
        if fault.answer in WRITES:
            list(self._s3(environ, lambda *_: None))
        if fault.answer.startswith("drop"):
            raise DropConnectionError
        if fault.answer == "409":
            message = "The conditional request cannot succeed due to a conflicting operation against this resource."
            raise ApiError("ConditionalRequestConflict", message, 409)
        raise ApiError("InternalError", "We encountered an internal error. Please try again.", 500)

    def _take(self, environ: Environ) -> Fault | None:
        path = environ["PATH_INFO"].encode("latin-1").decode()
        target = f"{environ['REQUEST_METHOD']} {path.lstrip('/').partition('/')[2]}"
        with self._lock:
            found = next((fault for fault in self._faults if fault.left and fault.match.search(target)), None)
            if found:
                found.left -= 1
                found.hits += 1
        return found
