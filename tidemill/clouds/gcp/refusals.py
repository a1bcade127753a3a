"""Refusals of Google as the errors of advice, each with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidemill.advice.sources import ApiOffError, NoAnswerError, NoPermissionError, ThrottledError
from tidemill.clouds.gcp import session as gcp
from tidemill.errors import CloudError

_GRANT = "Ask the stack's owner to set `advise: true` in tidemill:access."
_LATER = "Ask again in some minutes."


@contextmanager
def gcp_refusals(action: str) -> Iterator[None]:
    """Turn the errors of a `GoogleSession` into those of `tidemill.advice.sources`."""
    try:
        yield
    except CloudError as error:
        raise _of_gcp(error, action) from error


def _of_gcp(error: CloudError, action: str) -> CloudError:
    fields: dict[str, Any] = {"what": action, "command": error.command}
    if isinstance(error, gcp.DisabledError):
        return ApiOffError(error.problem, error.fix, owner=True, **fields)
    if isinstance(error, gcp.DeniedError):
        # One with a command is about the login, such as its quota project.
        return NoPermissionError(
            error.problem, error.fix if error.command else _GRANT, owner=not error.command, **fields
        )
    if isinstance(error, gcp.BusyError):
        return ThrottledError(error.problem, _LATER, **fields)
    return NoAnswerError(error.problem, error.fix, **fields)
