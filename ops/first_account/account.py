"""Answers for the checks: of the stack through the engine, of the pipeline as its users ask it, and of the cloud."""

import os
import time
from collections.abc import Sequence
from functools import cached_property

import click

from components.config import StackConfig
from ops.drift import steps
from ops.preview import document_of
from ops.processes import output
from ops.project import ROOT
from tidemill.client import Job, Pipeline
from tidemill.client.health.reconciler import read_report
from tidemill.store import Stores

_OUTPUT_SECONDS = 120
_POLL_SECONDS = 1.0
METADATA = "http://169.254.169.254/latest/meta-data/"
# Prints the status of an answer of instance metadata, or why there is none; `sh` and one of two clients are needed.
_ASK_METADATA = f"""
if command -v curl >/dev/null; then curl -s -m 3 -o /dev/null -w '%{{http_code}}' {METADATA} || true
elif command -v wget >/dev/null; then wget -q -T 3 -t 1 -O /dev/null {METADATA} && printf 200 || printf refused
else printf unknown; fi > "$TIDEMILL_OUTPUT/status"
"""


class DiffersError(Exception):
    """The cloud answers otherwise than the design expects."""


class Account:
    """A stack that is up, and the jobs that the checks share.

    Args:
        seconds: How long a job may take before it counts as an answer of its own.

    Raises:
        click.ClickException: The stack has no pipeline in the backend of this login.
    """

    def __init__(self, stack: str, config: StackConfig, queue: str, seconds: float) -> None:
        self.stack, self.config, self.queue, self._seconds = stack, config, queue, seconds
        command = ["pulumi", "stack", "output", "pipeline_uri", "--stack", stack, "--non-interactive"]
        code, text = output(command, cwd=ROOT, env=os.environ, timeout=_OUTPUT_SECONDS)
        if code:
            raise click.ClickException(f"{stack} is not up in this backend: {' '.join(text.split())}")
        self.pipeline = Pipeline.load(text.strip())

    def submit(self, name: str, command: Sequence[str]) -> Job:
        """A job of two chunks with an item each, which need not exist."""
        items = [f"{self.pipeline.store.uri}/out/{name}/{n}" for n in range(2)]
        return self.pipeline.submit(list(command), items, queue=self.queue, name=name, chunk_size=1)

    @cached_property
    def finished(self) -> Job:
        """A job that has ended, with its outcomes."""
        job = self.submit("first-account", ["sh", "-c", _ASK_METADATA])
        self.await_end(job)
        return job

    @cached_property
    def cancelled(self) -> Job:
        job = self.submit("first-account-cancel", ["sleep", "3600"])
        end = time.monotonic() + self._seconds
        while job.status().chunks.running < 1:
            self._in_time(end, job)
        job.cancel("first-account")
        while job.status().chunks.running:
            self._in_time(end, job)
        return job

    def await_end(self, job: Job) -> None:
        end = time.monotonic() + self._seconds
        while not job.status().ended:
            self._in_time(end, job)

    def _in_time(self, end: float, job: Job) -> None:
        if time.monotonic() > end:
            job.cancel("first-account: out of time")
            raise DiffersError(f"{job.id} took longer than {self._seconds:.0f} s: {job.status().note}.")
        time.sleep(_POLL_SECONDS)


def no_drift(account: Account) -> str:
    """Check that a preview with a refresh is empty."""
    document = document_of(account.stack, account.config, "login", refresh=True)
    if document["preview"] is None:
        raise DiffersError("; ".join(document["errors"]))
    changes = [f"{step['op']} {step['urn'].rpartition('::')[2]}" for step in steps(document)]
    if changes:
        raise DiffersError(f"{len(changes)} changes: {', '.join(changes[:5])}.")
    return "no resource differs"


def items_run(account: Account) -> str:
    """Check that both items of a job succeed at their first attempt."""
    outcomes = list(account.finished.results())
    if [(one.status, one.attempts) for one in outcomes] != [("succeeded", 1)] * 2:
        raise DiffersError("; ".join(f"{one.status} {one.reason}: {one.error}" for one in outcomes) or "no outcome.")
    return f"{account.finished.id} succeeded"


def no_metadata(account: Account) -> str:
    """Check that instance metadata refuses items."""
    answers = []
    for outcome in account.finished.results():
        if outcome.output is None:
            raise DiffersError(f"item {outcome.index} has no output: {outcome.error}")
        store, name = Stores(account.pipeline.store).locate(f"{outcome.output}status")
        answers.append(store.get(name).decode())
    if "200" in answers or "unknown" in answers:
        raise DiffersError(f"the items saw {', '.join(answers)}.")
    return f"the items saw {', '.join(answers)}"


def not_lost(account: Account) -> str:
    """How much a resume enqueues right after a submit."""
    job = account.submit("first-account-resume", ["true"])
    sent = job.resume()
    account.await_end(job)
    if sent.chunks:
        raise DiffersError(f"resume enqueued {sent.chunks} chunks again.")
    return "resume enqueued nothing"


def reconciler_reports(account: Account) -> str:
    """Check the reconciler's last report."""
    report = read_report(account.pipeline.store)
    problems = [*report.late(time.time()), *report.problems(account.queue)] if report else ["there is no report"]
    if problems:
        raise DiffersError(f"{'; '.join(problems)}.")
    return "a fresh report without errors"
