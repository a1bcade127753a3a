"""The runtime of a Lambda function: takes one event at a time, and answers it.

Source: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

from __future__ import annotations

import http.client
import json
from typing import NoReturn

from tidemill.sender.answering import Answer, answered

_PATH = "/2018-06-01/runtime/invocation"
_ID = "Lambda-Runtime-Aws-Request-Id"
ANSWER_SECONDS = 30


def serve(address: str, answer: Answer) -> NoReturn:
    """Answer events until the service ends this process, which it does between two events.

    Args:
        address: Host and port of the runtime API.
        answer: Answers an event; what it raises is the event's failure, after which the service tries again.
    """
    while True:
        serve_one(address, answer)


def serve_one(address: str, answer: Answer) -> None:
    """Wait for the next event and answer it."""
    # The service freezes this process meanwhile and documents that this call has no time limit.
    request, body = _call(address, "GET", "next", None)
    done, content = answered(answer, json.loads(body))
    result = "response" if done else "error"
    _call(address, "POST", f"{request}/{result}", content)


def _call(address: str, method: str, path: str, body: bytes | None) -> tuple[str, bytes]:
    """Answers the id of the event, where there is one, and the body."""
    connection = http.client.HTTPConnection(address, timeout=ANSWER_SECONDS if body is not None else None)
    try:
        connection.request(method, f"{_PATH}/{path}", body)
        with connection.getresponse() as answer:
            content = answer.read()
            if answer.status >= 300:
                raise ConnectionError(f"the runtime API answered {method} {path} with {answer.status}")
            return answer.headers.get(_ID, ""), content
    finally:
        connection.close()
