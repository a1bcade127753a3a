"""How long a job may wait for its first machine: the checks of a submit."""

from __future__ import annotations

from tidemill.errors import CallerError
from tidemill.request import JobRequest
from tidemill.services import Service

_KEY = "start_within_seconds"


def start_within(service: Service, request: JobRequest) -> float | None:
    """The limit that a caller gives, or None.

    Raises:
        CallerError: The job starts at once, or waits for other jobs.
    """
    if (seconds := request.start_within_seconds) is None:
        return None
    if service.one_machine:
        raise CallerError(f"{_KEY} is given, and jobs on this machine start at once.", "Leave it out.", what=_KEY)
    if request.after or request.after_success:
        problem = f"{_KEY} is given, and the job waits for others, however long they take."
        raise CallerError(problem, "Leave one of the two out.", what=_KEY)
    if not service.reconciled:
        request.log(
            f"`{_KEY}`: where nobody looks at the job (`tidemill wait`, `status`), the first machine that would begin "
            "with it later ends it."
        )
    return seconds
