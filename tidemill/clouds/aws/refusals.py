"""Refusals of AWS as the errors of advice, each with a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidemill.advice.sources import ApiOffError, NoAnswerError, NoPermissionError, ThrottledError
from tidemill.clouds.aws import session as aws
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
    fields: dict[str, Any] = {"what": action, "code": error.code}
    if error.code in aws.DENIED:
        # Every submitter may ask for quotas, without the grant.
        fix = _GRANT if action.startswith("ec2:") else error.fix
        return NoPermissionError(error.problem, fix, owner=True, **fields)
    if error.code == _USED_UP:
        problem = f"{action}: the account may ask no more different questions for now."
        return ThrottledError(problem, "Repeat a question of the last 24 hours, or ask this one tomorrow.", **fields)
    if error.code in _THROTTLED:
        return ThrottledError(error.problem, _LATER, **fields)
    if error.code in _NOT_ENABLED:
        problem = f"{action}: the login is not valid in {region}, or the account has not enabled it ({error.code})."
        command = f"aws account enable-region --region-name {region}"
        return ApiOffError(problem, command=command, owner=True, **fields)
    return NoAnswerError(error.problem, error.fix, **fields)
