"""The jobs that a worker knows: each is read once, and forgotten some time after its last chunk here."""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Iterator, Mapping

from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Round
from tidemill.ledger.documents import TamperedError
from tidemill.ledger.gate import Gate, begin, begun_at, look
from tidemill.ledger.spent_seconds import limit_of
from tidemill.ledger.start_limit import has_started, start_limit
from tidemill.metrics import MetricPattern, compile_metrics
from tidemill.placeholders import PLACEHOLDERS, fill
from tidemill.store import Store
from tidemill.worker.items.inputs import LockedInput, release
from tidemill.worker.items.runners import Runners
from tidemill.worker.items.task import reader
from tidemill.worker.lease import Lease
from tidemill.worker.machine.machine_folder import NotReadyError, StoppedError
from tidemill.worker.machine.stop import JobStop, Stop
from tidemill.worker.output import log

KEPT_JOBS = 4
"""Jobs without a chunk here that are remembered, because their next chunk may come at once."""


class LeasedJob:
    """A job in a round, as a worker knows it: read once, and checked against the hashes that the lease names."""

    def __init__(self, store: Store, lease: Lease, stop: Stop | None = None) -> None:
        self.id = lease.job
        self.key = key_of(lease)
        self.stop = JobStop(Stop() if stop is None else stop)
        """Raised when this job's items are to end."""
        self.env: Mapping[str, str] | None = None
        """What its programs see, once what they need is on this machine."""
        self.inputs: Mapping[str, str] = {}
        """Where its named inputs are."""
        self.ledger = Ledger(store, lease.job)
        self.spec: JobSpec = self.ledger.spec(lease.job_sha256)
        self.asked_mib = self.spec.resources.memory_mib
        """Memory that the job asks for an item."""
        self.most_mib = 0
        """Memory that an item can have here; 0 where that is not counted."""
        self.round: Round = self.ledger.round(lease.round, lease.round_sha256)
        self.spec = self.spec.with_memory(self.round.memory_mib)
        self.output_prefix = self.spec.output_prefix(store.uri)
        program = (self.spec.command or [])[:1]
        names = (*PLACEHOLDERS, *self.spec.placeholders)
        self.same_program = fill(program, dict.fromkeys(names, ""), self.spec.placeholders) == program
        """Whether every item runs the same program, so that one that does not start says something of the job."""
        self.limit = limit_of(self.spec, [self.round])
        """What it may cost."""
        self.metrics = _metrics_of(self.spec)
        """What to look for in what its items print."""
        self.item_seconds = 0.0
        """How long an item takes, of late; 0 while that is not known."""
        self.proven = False
        """Whether an item of it has succeeded here."""
        self.first_item_noted = self.round.round > 0
        """Whether the store knows how long it waited for its first item."""
        self._begun = self._in_time = False

    def hold(self, inputs: Mapping[str, LockedInput]) -> None:
        """Keep named inputs on this machine as long as anything here knows the job."""
        self.inputs = {name: str(held.path) for name, held in inputs.items()}
        for held in inputs.values():
            weakref.finalize(self, release, held)

    def late(self) -> str | None:
        """Why the job ends, if it should have started earlier; None for one that may run."""
        limit = None if self._in_time else start_limit(self.spec, self.round)
        self._in_time = limit is None or time.time() < limit.until or has_started(self.ledger)
        return limit.reason if limit and not self._in_time else None

    def gate(self) -> Gate | None:
        """The gate at which the job still waits; None from the moment on in which it may run."""
        if not self._begun and begun_at(self.ledger.store, self.spec) is None:
            gate = look(self.ledger.store, self.spec.after)
            if not gate.open:
                return gate
            begin(self.ledger.store, self.id, "worker")
        self._begun = True
        return None


def _metrics_of(spec: JobSpec) -> list[MetricPattern]:
    try:
        return compile_metrics(spec.metrics)
    except CallerError as error:
        # The submit has checked them, with another version of the package perhaps.
        log(f"metrics are not looked for: {error}", "warning", job=spec.job)
        return []


def key_of(lease: Lease) -> tuple[str, int, str | None, str | None]:
    """Key that tells the jobs and rounds of a worker apart."""
    return lease.job, lease.round, lease.job_sha256, lease.round_sha256


class JobCache:
    """The jobs that a worker knows."""

    def __init__(self, store: Store, runners: Runners, base_env: Mapping[str, str], stop: Stop) -> None:
        self._store, self._runners, self._base_env, self._stop = store, runners, dict(base_env), stop
        self._known: dict[object, LeasedJob] = {}

    def __iter__(self) -> Iterator[LeasedJob]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def find(self, lease: Lease) -> LeasedJob | None:
        """The lease's job, if it is known."""
        return self._known.get(key_of(lease))

    def of(self, lease: Lease, at_work: Collection[object]) -> LeasedJob:
        """The lease's job; `StoreError` if it is missing or changed. Of the jobs without a chunk here, the last few
        are kept."""
        key = key_of(lease)
        job = self._known.pop(key, None) or LeasedJob(self._store, lease, self._stop)
        self._known[key] = job
        for old in [other for other in self._known if other not in at_work][:-KEPT_JOBS]:
            del self._known[old]
        return job

    def forget(self, job: LeasedJob) -> None:
        """It has ended."""
        self._known.pop(job.key, None)

    def prepare(self, job: LeasedJob) -> bool:
        """Have the named inputs and the shipped code of a job on this machine; false when the worker was stopped
        meanwhile.

        Raises:
            NotReadyError: An input cannot be fetched, packages not be installed, or a secret is not set; the job has
                been told.
            TamperedError: Its code is not what was submitted; the job is cancelled.
            StoreError: The store or the secret store did not answer, or the disk is full.
        """
        number, env = job.round.round, {**self._base_env, **job.spec.env}
        if job.spec.public:
            self._runners.read_as_public(job.spec.public)
        try:
            at, named = reader(job.id, number), job.spec.inputs
            inputs = self._runners.inputs(self._store).ready(at, named) if named else {}
            job.hold(inputs)
            env |= {f"TIDEMILL_INPUT_{name.upper()}": path for name, path in job.inputs.items()}
            if job.round.code:
                code = self._runners.codes(self._store).ready(job.id, job.round.code, job.spec, env)
                job.spec, env = code.spec(job.spec), code.environment(env)
            if job.spec.secrets:
                # Last: what installs packages needs none.
                env |= self._runners.secrets(job.spec)
        except StoppedError:
            return False
        except TamperedError as error:
            job.ledger.cancel("worker", str(error), number + 1)
            raise
        except NotReadyError as error:
            job.ledger.start_failed(number, str(error))
            raise
        job.env = env
        return True
