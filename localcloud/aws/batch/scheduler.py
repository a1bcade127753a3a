"""What runs when: one thread that moves every child of every queue.

Fair share is round-robin by share identifier. Within an identifier, children run first in, first out; a retry goes to
the front.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections import Counter, deque

from localcloud.aws import events
from localcloud.aws.batch.catalog import Catalog
from localcloud.aws.batch.child import Result, Run
from localcloud.aws.batch.core import Core, Json, log, now_ms
from localcloud.aws.batch.environments import Environment
from localcloud.aws.batch.fleet import BatchFleet
from localcloud.aws.batch.jobs import ENDED, WAITING, Attempt, Child, Job, describe
from localcloud.aws.batch.queues import Queue
from localcloud.aws.batch.waiting import Waiting

POLL = 0.05
DEPENDENCY_FAILED = "Dependent Job failed"
TIMED_OUT = "Job attempt duration exceeded timeout"
TOO_LARGE = (
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The CE(s) associated with the job queue cannot meet the job's "
    "resource requirement."
)
MORE_THAN_MOST = (
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - Job resource requirement cannot be met by the CE(s) "
    "associated with the job queue."
)
SHORT = "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - Service cannot fulfill the capacity requested for instance type [{}]"
INVALID = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."
GIVEN_UP = "Canceled by JobStateTimeLimit action due to reason: {}"
"""https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html"""


class Scheduler:
    """The scheduler. Callers hold the core's lock."""

    def __init__(
        self, core: Core, fleet: BatchFleet, environments: Catalog[Environment], queues: Catalog[Queue]
    ) -> None:
        self._core, self._fleet, self._environments, self._all_queues = core, fleet, environments, queues
        self._waiting: dict[str, Waiting] = {}
        self._submitted: deque[Job] = deque()
        self._unfinished: list[Job] = []
        self._thread = threading.Thread(target=self._loop, name="batch-scheduler", daemon=True)
        self._thread.start()

    # Calls from the API

    def submit(self, job: Job) -> None:
        """Accept a new job; its children become RUNNABLE in the scheduler's next round."""
        self._unfinished.append(job)
        self._submitted.append(job)
        self._core.changed.notify_all()

    def end(self, child: Child, how: str, reason: str) -> None:
        """Cancel or terminate a child. Cancelling has no effect once the child has begun to start."""
        if child.status in ENDED or child.ending or (how == "cancel" and child.status not in WAITING):
            return
        child.ending = how
        if child.status in WAITING:
            child.to("FAILED", reason)
        else:
            child.reason = reason
            if run := self._fleet.runs.get(child):
                self._stop_run(run)

    def front(self, queue: str, most: int) -> list[Child]:
        """The first waiting children of a queue, in the order in which they will start."""
        return list(self._waiting_in(queue).demand(most))

    def usage(self, queue: str) -> Counter[str]:
        """vCPUs that children of a queue use, by share identifier."""
        used: Counter[str] = Counter()
        for child in self._fleet.runs:
            if child.job.queue == queue:
                used[child.job.share or ""] += child.job.needs.cpus
        return used

    def join(self) -> None:
        """Wait for the thread, which ends with the core."""
        self._thread.join(timeout=10)

    # The thread

    def _loop(self) -> None:
        core = self._core
        with core.lock:
            while not core.stopped:
                wait = 0.1
                try:
                    wait = core.run_due()
                    self._admit()
                    self._reap()
                    self._tell_ends()
                    self._place()
                    self._grow()
                    self._fleet.shrink()
                except Exception:
                    log.error("the scheduler of Batch failed:\n%s", traceback.format_exc())
                core.changed.wait(POLL if self._fleet.runs or self._fleet.machines else max(wait, 0))

    def _queues(self) -> list[Queue]:
        return sorted(self._all_queues.values(), key=lambda queue: -queue.detail["priority"])

    def _waiting_in(self, queue: str) -> Waiting:
        return self._waiting.setdefault(queue, Waiting())

    def _admit(self) -> None:
        for _ in range(len(self._submitted)):
            job = self._submitted.popleft()
            statuses = {other.status for other in job.depends_on}
            for child in job.children:
                if child.status not in ("SUBMITTED", "PENDING"):
                    continue
                if "FAILED" in statuses:
                    child.to("FAILED", DEPENDENCY_FAILED)
                elif statuses <= {"SUCCEEDED"}:
                    self._enqueue(child)
                elif child.status == "SUBMITTED":
                    child.to("PENDING")
            if not statuses <= {"SUCCEEDED"} and "FAILED" not in statuses:
                self._submitted.append(job)

    def _tell_ends(self) -> None:
        """Send the event of each job that has ended; those of children, and of other states, reach no rule of ours."""
        ended = [job for job in self._unfinished if job.status in ENDED]
        self._unfinished = [job for job in self._unfinished if job.status not in ENDED]
        for job in ended:
            self._send("Batch Job State Change", job, None if job.size else job.children[0])

    def _send(self, kind: str, job: Job, child: Child | None) -> None:
        detail = describe(job, child)
        self._core.background(lambda: events.send(kind, detail, [detail["jobArn"]], job.arn.split(":")[3]))

    def _enqueue(self, child: Child, front: bool = False) -> None:
        child.to("RUNNABLE")
        child.runnable_since = time.monotonic()
        waiting = self._waiting_in(child.job.queue)
        (waiting.appendleft if front else waiting.append)(child)

    def _place(self) -> None:
        for queue in self._queues():
            waiting = self._waiting_in(queue.arn)
            blocked: set[str] = set()
            while len(self._fleet.runs) < self._core.settings.max_children:
                head = next((each for each in waiting.heads() if each[0] not in blocked), None)
                if head is None:
                    break
                share, child = head
                machine = self._fleet.room(queue, child.job.needs)
                if machine is None:
                    blocked.add(share)
                    continue
                waiting.take(share)
                child.to("STARTING")
                self._fleet.start(child, machine)
            self._limit_time(queue, waiting)

    def _reap(self) -> None:
        for child, run in list(self._fleet.runs.items()):
            if child.status == "STARTING" and run.started:
                child.attempts.append(run.attempt)
                child.to("RUNNING", child.reason)
                self._limit_attempt(child, run)
                if child.ending:
                    self._stop_run(run)
            result = run.poll()
            if result is not None:
                self._finish(child, run, result)

    def _limit_attempt(self, child: Child, run: Run) -> None:
        if child.job.timeout is None:
            return

        def expire() -> None:
            if self._fleet.runs.get(child) is run and child.status == "RUNNING":
                run.timed_out = True
                self._stop_run(run)

        limit = child.job.timeout["attemptDurationSeconds"] * self._core.settings.time_scale
        self._core.after(limit, expire)

    def _stop_run(self, run: Run) -> None:
        run.signal(signal.SIGTERM)
        self._core.after(self._core.settings.stop_seconds, run.kill)

    def _finish(self, child: Child, run: Run, result: Result) -> None:
        attempt = run.attempt
        if not child.attempts or child.attempts[-1] is not attempt:
            child.attempts.append(attempt)
        attempt.stopped = now_ms()
        attempt.exit_code, attempt.reason, attempt.status_reason = result.exit_code, result.reason, result.status_reason
        if run.timed_out and not run.machine.gone:
            attempt.status_reason = TIMED_OUT
        self._fleet.remove(child)
        if child.ending:
            child.to("FAILED", child.reason)
        elif result.exit_code == 0 and not run.timed_out:
            child.to("SUCCEEDED", attempt.status_reason)
        elif not run.timed_out and retries(child.job.retry, len(child.attempts), attempt):
            self._enqueue(child, front=True)
        else:
            child.to("FAILED", attempt.status_reason)

    def _limit_time(self, queue: Queue, waiting: Waiting) -> None:
        """jobStateTimeLimitActions: cancel the head of the queue if it has been RUNNABLE too long for the reason."""
        for action in queue.detail["jobStateTimeLimitActions"]:
            for _, child in waiting.heads():
                waited = time.monotonic() - child.runnable_since
                expired = waited > action["maxTimeSeconds"] * self._core.settings.time_scale
                if expired and (child.reason or "").startswith(action["reason"]):
                    self.end(child, "cancel", GIVEN_UP.format(action["reason"]))

    # Machines

    def _grow(self) -> None:
        self._fleet.keep_least()
        limit = self._core.settings.max_children - len(self._fleet.runs)
        for queue in self._queues():
            spare = self._fleet.spare(queue)
            demand = list(self._waiting_in(queue.arn).demand(limit))
            while demand:
                needs = demand[0].job.needs
                taken = next((room for room in spare if needs.fits(room[0])), None)
                if taken is None:
                    taken = self._fleet.launch(queue, needs, sum(each.job.needs.cpus for each in demand))
                    self._explain(queue, demand[0])
                    if taken is None:
                        break
                    spare.append(taken)
                taken[0] = taken[0] - needs
                demand.pop(0)

    def _explain(self, queue: Queue, child: Child) -> None:
        """Say why a child waits. While Batch scales from zero, it also says so of a healthy one:
        https://github.com/nextflow-io/nextflow/issues/7479"""
        environments = [self._environments[rung] for rung in queue.rungs]
        needs, before = child.job.needs, child.reason
        fitting = [each.name for env in environments for each in env.types if needs.fits(each.room)]
        to_be_had = [each for env in environments for each in self._fleet.offered(env) if needs.fits(each.room)]
        from_zero = all(each.state == "booting" for each in self._fleet.machines.values())
        if all(each.detail["status"] == "INVALID" for each in environments):
            child.reason = INVALID
        elif fitting and needs.cpus > max(each.resources["maxvCpus"] for each in environments):
            child.reason = MORE_THAN_MOST
        elif fitting and not to_be_had:
            child.reason = SHORT.format(", ".join(dict.fromkeys(fitting)))
        elif from_zero or not fitting:
            child.reason = TOO_LARGE
        if child.reason != before and not (fitting and child.reason == TOO_LARGE):
            self._send("Batch Job Queue Blocked", child.job, child)


def retries(strategy: Json, attempts: int, attempt: Attempt) -> bool:
    """Whether Batch starts another attempt.

    Batch reads the rules in order, and the first whose conditions all match decides. Without a match it retries:
    https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html
    """
    if attempts >= strategy.get("attempts", 1):
        return False
    code = None if attempt.exit_code is None else str(attempt.exit_code)
    facts = {"onExitCode": code, "onReason": attempt.reason or "", "onStatusReason": attempt.status_reason}
    for rule in strategy.get("evaluateOnExit", []):
        if all(_matches(pattern, facts[key]) for key, pattern in rule.items() if key != "action"):
            return rule["action"] == "RETRY"
    return True


def _matches(pattern: str, value: str | None) -> bool:
    if value is None:
        return False
    return value.startswith(pattern[:-1]) if pattern.endswith("*") else value == pattern
