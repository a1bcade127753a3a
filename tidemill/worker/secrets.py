"""Personal secrets on a machine: given to the programs of a job that asks for them, and to nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.worker.machine.machine_folder import NotReadyError
from tidemill.worker.output import redact

OfJob = Callable[[str | None, Collection[str]], Mapping[str, str]]
"""The values of some names in a secret store; what is not set is left out. It raises `StoreError` where the store of
secrets does not answer, and `CallerError` where it refuses."""


def no_secrets(store: str | None, names: Collection[str]) -> Mapping[str, str]:
    """Gives none: the place has no secret store."""
    return {}


def secrets_of(spec: JobSpec, of_job: OfJob) -> Mapping[str, str]:
    """The variables of a job's programs that are secrets. Lines and errors do not show their values from now on.

    Raises:
        NotReadyError: One is not set, or the machine may not read them.
        StoreError: The secret store did not answer.
    """
    try:
        given = of_job(spec.secret_store, spec.secrets)
    except CallerError as error:
        raise NotReadyError(f"secrets: {error}") from None
    if missing := [name for name in spec.secrets if name not in given]:
        raise NotReadyError(f"secrets: {', '.join(missing)} is not set any more; `tidemill secret set` sets it")
    redact(given.values())
    return given
