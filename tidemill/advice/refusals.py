"""What a cloud's refusal means for advice, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidemill.advice.sources import ApiOffError, NoAnswerError, NoPermissionError, ThrottledError
from tidemill.backends.aws import session as aws
from tidemill.backends.gcp import session as gcp
from tidemill.errors import CloudError

_GRANT = "Ask the stack's owner to set `advise: true` in tidemill:access."
_LATER = "Ask again in some minutes."

_THROTTLED = ("RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException")
_USED_UP = "MaxConfigLimitExceeded"
"""Too many different questions for scores within a day.
Source: https://github.com/aws-solutions-library-samples/guidance-for-ec2-spot-placement-score-tracker"""
_NOT_ENABLED = ("OptInRequired", "AuthFailure")


@contextmanager
def aws_refusals(action: str, region: str) -> Iterator[None]:
    """Turn botocore's exceptions into the errors of `tidemill.advice.sources`."""
    try:
        with aws.translated(action):
            yield
    except CloudError as error:
        raise _of_aws(error, action, region) from error


def _of_aws(error: CloudError, action: str, region: str) -> CloudError:
    known: dict[str, Any] = {"what": action, "code": error.code}
    if error.code in aws.DENIED:
        # Every submitter may ask for quotas, without the grant.
        fix = _GRANT if action.startswith("ec2:") else error.fix
        return NoPermissionError(error.problem, fix, owner=True, **known)
    if error.code == _USED_UP:
        said = f"{action}: the account may ask no more different questions for now."
        return ThrottledError(said, "Repeat a question of the last 24 hours, or ask this one tomorrow.", **known)
    if error.code in _THROTTLED:
        return ThrottledError(error.problem, _LATER, **known)
    if error.code in _NOT_ENABLED:
        said = f"{action}: the login is not valid in {region}, or the account has not enabled it ({error.code})."
        command = f"aws account enable-region --region-name {region}"
        return ApiOffError(said, command=command, owner=True, **known)
    return NoAnswerError(error.problem, error.fix, **known)


@contextmanager
def gcp_refusals(action: str) -> Iterator[None]:
    """Turn the errors of a `GoogleSession` into those of `tidemill.advice.sources`."""
    try:
        yield
    except CloudError as error:
        raise _of_gcp(error, action) from error


def _of_gcp(error: CloudError, action: str) -> CloudError:
    known: dict[str, Any] = {"what": action, "command": error.command}
    if isinstance(error, gcp.DisabledError):
        return ApiOffError(error.problem, error.fix, owner=True, **known)
    if isinstance(error, gcp.DeniedError):
        # One with a command is about the login, such as its quota project.
        return NoPermissionError(
            error.problem, error.fix if error.command else _GRANT, owner=not error.command, **known
        )
    if isinstance(error, gcp.BusyError):
        return ThrottledError(error.problem, _LATER, **known)
    return NoAnswerError(error.problem, error.fix, **known)
