"""Runs items of either kind: commands, and functions in the image's own Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.job import JobSpec
from tidemill.store import Store
from tidemill.worker.items.function import FunctionRunner
from tidemill.worker.items.inputs import InputCache
from tidemill.worker.items.run_item import CommandRunner
from tidemill.worker.items.staging import Staging
from tidemill.worker.items.task import OutcomeSink, Task
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.programs import Programs
from tidemill.worker.secrets import OfJob, no_secrets, secrets_of

if TYPE_CHECKING:
    from tidemill.worker.items.code import CodeCache

PYTHON = "python3"


class Runners:
    """Runs items; shared by the slots of a worker. Functions run in the image's interpreter, `python`. `given` has the
    secrets that a job may ask for."""

    def __init__(
        self, staging: Staging, scratch: Scratch, stop: Stop, python: str = PYTHON, given: OfJob = no_secrets
    ) -> None:
        self._staging, self._scratch, self._stop, self._python = staging, scratch, stop, python
        self._given = given
        self._programs = Programs(stop)
        self._commands = CommandRunner(self._programs, staging, scratch)
        self._functions: dict[int, FunctionRunner] = {}
        # Where the worker was started: modules are imported from that folder.
        self._path = [os.getcwd()]

    def codes(self, store: Store) -> CodeCache:
        from tidemill.worker.items.code import CodeCache

        return CodeCache(
            self._shared, store, self._staging.stores, programs=self._programs, stop=self._stop, python=self._python
        )

    def inputs(self, store: Store) -> InputCache:
        return InputCache(self._shared, store, self._staging.stores, self._stop)

    def read_as_public(self, buckets: Sequence[str]) -> None:
        """Read buckets as the public sees them from now on, where the machine's role may not."""
        self._staging.stores.public.update(buckets)

    def secrets(self, spec: JobSpec) -> Mapping[str, str]:
        """See `secrets_of`."""
        return secrets_of(spec, self._given)

    @property
    def _shared(self) -> Path:
        """The folder that the workers of this machine share."""
        cache = Path(self._scratch.cache) if self._scratch.cache else None
        return cache if cache and os.access(cache, os.W_OK) else self._scratch.folder.parent.parent

    def most_ahead(self, slots: int) -> int:
        """How many inputs per slot may lie here before they are needed, as large as inputs have been so far."""
        return self._staging.most_ahead(slots)

    def prefetch(self, task: Task) -> None:
        self._commands.prefetch(task)

    def forget(self, task: Task) -> None:
        self._commands.forget(task)

    def run(self, tasks: Sequence[Task], slot: Slot, ends: OutcomeSink) -> None:
        """Run items of a chunk in a slot; returns when all are done, or the worker or their job stops."""
        if tasks[0].spec.command is not None:
            self._commands.run(tasks, slot, ends)
            return
        if slot.number not in self._functions:
            self._functions[slot.number] = FunctionRunner(
                self._programs, self._staging, self._stop, python=self._python, path=self._path
            )
        self._functions[slot.number].run(tasks, slot, ends)

    def close(self, slot: Slot) -> None:
        self._commands.close(slot)
        if runner := self._functions.pop(slot.number, None):
            runner.close()
