"""Jobs after jobs: the checks of a submit, and a client's part when the other job has ended."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.client.arguments import texts
from tidemill.client.journal import find_spec
from tidemill.client.rounds.deliveries import known_arrays
from tidemill.client.rounds.enqueue import enqueue
from tidemill.client.site import Site
from tidemill.errors import CallerError, StoreDeniedError
from tidemill.job import MAX_AFTER, JobSpec, Predecessor
from tidemill.ledger import Ledger
from tidemill.ledger.gate import Gate, begin, begun_at, look
from tidemill.ledger.rounds import round_of

_JOBS = "a list of ids or names of jobs"


def resolve_after(site: Site, after: Sequence[str], success: Sequence[str], name: str | None) -> list[Predecessor]:
    """The jobs that a new job waits for, by their full ids.

    Args:
        site: The pipeline.
        after: Ids or names of jobs that must be complete.
        success: Ids or names of jobs whose items must all have succeeded, too.
        name: The new job's own name.

    Raises:
        CallerError: There is no such job, or the new job could never begin.
    """
    predecessors: dict[str, Predecessor] = {}
    after = texts("after", after, _JOBS, f"Write [{after!r}].")
    success = texts("after_success", success, _JOBS, f"Write [{success!r}].")
    if (many := len(after) + len(success)) > MAX_AFTER:
        fix = "Let a job in between wait for some of them."
        raise CallerError(f"after names {many} jobs; it must be at most {MAX_AFTER}.", fix, what="after")
    for key, jobs in (("after", after), ("after_success", success)):
        for job in jobs:
            if job == name:
                raise CallerError.about(key, job, "another job", "Give the id of an earlier job of this name.")
            try:
                id_ = find_spec(site.store, job).job
            except CallerError as error:
                raise CallerError(f"{key} is {job!r}: {error.problem}", error.fix, what=key, value=job) from None
            predecessors[id_] = Predecessor(job=id_, success=key == "after_success")
            check_after(site, key, job, predecessors[id_])
    return list(predecessors.values())


def check_after(site: Site, key: str, given: str, after: Predecessor) -> None:
    """Refuse, with `CallerError`, a job that could never begin as the other one is. `key` and `given` are what was
    typed."""
    never = look(site.store, [after]).never
    if never is None and after.success:
        listing = Ledger(site.store, after.job).listing()
        if listing.counts.failed and listing.again is None:
            raise CallerError(
                f"{key} is {given!r}, and {listing.counts.failed} items of {after.job} have failed already.",
                f"`tidemill retry {after.job} --failed` runs them again; or give it as `after`.",
                what=key,
                value=given,
            )
    if never:
        fix = f"`{never.fix}` first, or leave it out." if never.fix else "Leave it out."
        raise CallerError(f"{key} is {given!r}, and {never.why}.", fix, what=key, value=given)


def closed_gate(site: Site, ledger: Ledger, spec: JobSpec) -> Gate | None:
    """The gate at which a job still waits; None for a job that may run, or has ended.

    A client that finds the other jobs complete lets the job begin. One that finds that they never will be ends it.
    """
    if begun_at(site.store, spec) is not None:
        return None
    rounds = ledger.rounds()
    if ledger.is_cancelled():
        return None
    gate = look(site.store, spec.after)
    try:
        if gate.never:
            # Rounds that somebody adds meanwhile have seen the other job later.
            covered = ledger.cancel("worker", gate.never.reason(spec.job), max(1, len(rounds)))
            backend = site.backend(spec.queue)
            backend.cancel([a for a in known_arrays(site, spec) if round_of(a.name) < covered], gate.never.why)
        elif gate.open and begin(site.store, spec.job, site.account.user(), site.account.at()) and rounds:
            enqueue(site, spec, rounds[-1])
    except StoreDeniedError:
        # A login that may only look shows what it sees.
        return None if gate.open else gate
    return None if gate.open or gate.never else gate


def check_gate(site: Site, ledger: Ledger, spec: JobSpec) -> Gate | None:
    """The gate at which a job waits that is to be resumed, or None.

    Raises:
        CallerError: It could never begin.
    """
    if begun_at(site.store, spec) is not None:
        return None
    gate = look(site.store, spec.after)
    if gate.never:
        fix = f"`{gate.never.fix}` first." if gate.never.fix else "Submit it again without that."
        raise CallerError(f"{spec.job} runs after {gate.never.job}, and {gate.never.why}.", fix, what="job")
    return None if gate.open else gate
