"""A front for S3 that fails on request, in ways that mislead the client about its write.

409 ConditionalRequestConflict means that nothing was written and that the client should retry:
https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html. After a 500 or a dropped connection, the
object may have been written.
"""

from __future__ import annotations

from typing import Any

from localcloud.aws.errors import AwsError
from localcloud.aws.wsgi import Environ, StartResponse, WsgiApp
from localcloud.faults import DropConnectionError, Faults

ANSWERS = ("409", "500-after", "drop", "drop-after")
WRITES = {"500-after", "drop-after"}


class S3Faults:
    """WSGI app: S3, or the fault that matches the request's `METHOD key`."""

    def __init__(self, s3: WsgiApp) -> None:
        self._s3 = s3
        self._faults = Faults(ANSWERS)
        self.control = self._faults.control

    def __call__(self, environ: Environ, start_response: StartResponse) -> Any:
        path = environ["PATH_INFO"].encode("latin-1").decode()
        fault = self._faults.take(environ["REQUEST_METHOD"], path.lstrip("/").partition("/")[2])
        if fault is None:
            return self._s3(environ, start_response)
        if fault in WRITES:
            list(self._s3(environ, lambda *_: None))
        if fault.startswith("drop"):
            raise DropConnectionError
        if fault == "409":
            message = "The conditional request cannot succeed due to a conflicting operation against this resource."
            raise AwsError("ConditionalRequestConflict", message, 409)
        raise AwsError("InternalError", "We encountered an internal error. Please try again.", 500)
