"""The lease of AWS Batch: a container is started for one chunk, and its exit code is the answer."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from tidemill.errors import CallerError
from tidemill.ledger import Round


class ArrayLease:
    """The chunk of an array's child. Batch holds it as long as the container lives, so there is nothing to extend.

    Args:
        env: The container's environment: ``TIDEMILL_JOB``, ``_ROUND``, ``_ARRAY``, ``_JOB_SHA256`` and
            ``_ROUND_SHA256`` from the submit; ``AWS_BATCH_JOB_ID``, ``_ATTEMPT`` and, in an array,
            ``_ARRAY_INDEX`` from Batch (https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html).

    Raises:
        CallerError: The container was not started by a submit of ours.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self.job = _required(env, "TIDEMILL_JOB")
        self.round = _number(env, "TIDEMILL_ROUND")
        self.job_sha256 = env.get("TIDEMILL_JOB_SHA256") or None
        self.round_sha256 = env.get("TIDEMILL_ROUND_SHA256") or None
        self.delivery = _number(env, "AWS_BATCH_JOB_ATTEMPT", "1")
        self.id = f"a{self.delivery}-{secrets.token_hex(6)}"
        self._array = _number(env, "TIDEMILL_ARRAY", "0")
        self._child = _number(env, "AWS_BATCH_JOB_ARRAY_INDEX", "0")
        self.backend: dict[str, Any] = {"job_id": env.get("AWS_BATCH_JOB_ID", ""), "attempt": self.delivery}

    def chunk(self, round_: Round) -> int:
        """The chunk of this child in its round; `CallerError` if the round has no such array or child."""
        try:
            return round_.arrays[self._array].chunk(self._child)
        except IndexError:
            raise CallerError.about(
                "TIDEMILL_ARRAY",
                f"{self._array}, child {self._child}",
                f"what round {self.round} enqueued",
                "Resume it.",
            ) from None

    def extend(self) -> None:
        """Nothing to do."""

    def progressed(self) -> None:
        """Nothing to do: Batch counts every attempt."""

    def ack(self) -> None:
        """Nothing to do: the exit code states it."""

    def release(self) -> None:
        """Nothing to do: the exit code states it."""

    def abandon(self) -> None:
        """Nothing to do: Batch has forgotten this container."""


class ArrayLeases:
    """The one lease of a container on AWS Batch."""

    many_jobs = False

    def __init__(self, env: Mapping[str, str]) -> None:
        self._next: ArrayLease | None = ArrayLease(env)

    @property
    def exhausted(self) -> bool:
        return self._next is None

    def lease(self, wait_seconds: float = 0) -> ArrayLease | None:
        """The container's chunk, once; there is nothing to wait for."""
        lease, self._next = self._next, None
        return lease

    def end(self) -> None:
        self._next = None

    def close(self) -> None:
        """Nothing to do: the exit code states it."""


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise CallerError.about(name, value, "what `tidemill submit` sets", "Start workers by submitting a job.")
    return value


def _number(env: Mapping[str, str], name: str, default: str | None = None) -> int:
    value = env.get(name, default)
    if value is None or not value.isdigit():
        raise CallerError.about(name, value, "a whole number", "Start workers by submitting a job.")
    return int(value)
