"""One item: its attempts, each in a folder of its own, until one succeeds, the last has failed, or the worker stops."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tidemill.capacity import WORKER_MIB
from tidemill.errors import StoreUnavailableError
from tidemill.job import Item, JobSpec
from tidemill.ledger import Outcome
from tidemill.placeholders import child_variables, fill, meta_values
from tidemill.removal import remove
from tidemill.worker.items.item_inputs import ItemInputs
from tidemill.worker.items.staging import Outputs, Staging
from tidemill.worker.items.task import OutcomeSink, Task
from tidemill.worker.items.uploads import OutputUploads
from tidemill.worker.machine.gpus import GpuUse
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.output import ItemOutput
from tidemill.worker.programs import sagemaker
from tidemill.worker.programs.faults import ItemError, item_step
from tidemill.worker.programs.process import Pipes, ProgramExit, run_program
from tidemill.worker.programs.programs import Programs
from tidemill.worker.programs.supervisor import Limits

if TYPE_CHECKING:
    from tidemill.worker.items.item_state import ItemState

_LAST_PAUSE = 10.0
FULL_PAUSE = 60.0
KILLED = 128
"""From here on, exit codes of shells say which signal ended a program."""
_NOT_AGAIN = ("start", "input")
"""Reasons that another attempt cannot change."""


class CommandRunner:
    """Runs items whose work is a command; shared by the slots of a worker."""

    def __init__(self, programs: Programs, staging: Staging, scratch: Scratch) -> None:
        self._programs, self._staging, self._scratch = programs, staging, scratch
        self._uploads = OutputUploads(staging, scratch)
        self._inputs = ItemInputs(staging, scratch)
        self._pipes: dict[int, Pipes] = {}

    def prefetch(self, task: Task) -> None:
        if task.spec.stages_input:
            self._inputs.begin(task)

    def forget(self, task: Task) -> None:
        """The item is not run here after all: what was fetched for it is removed."""
        self._inputs.remove(task)

    def run(self, tasks: Sequence[Task], slot: Slot, ends: OutcomeSink) -> None:
        """Run items one after the other, until the worker or their job stops. An interrupted item has no outcome."""
        try:
            for task in tasks:
                if task.stop.raised:
                    return
                slot.current = task.item.index
                tried = self._run(task, slot)
                if tried is None:
                    # It was interrupted and remains the slot's item: the drain names it.
                    return
                slot.current = None
                if task.grows(tried.outcome):
                    ends.again(task, tried.outcome.attempts + 1, task.more_memory_mib)
                elif tried.outputs is None:
                    ends(tried.outcome)
                else:
                    self._send(task, slot, tried.outcome, tried.outputs, ends)
        finally:
            for task in tasks:
                self.forget(task)

    def _send(self, task: Task, slot: Slot, outcome: Outcome, outputs: Outputs, ends: OutcomeSink) -> None:
        """Upload outputs while the slot goes on, or here when many are on their way."""

        def sent(error: ItemError | StoreUnavailableError | None) -> None:
            slot.give_back(outputs.folder)
            if error is None:
                ends(outcome)
            elif isinstance(error, StoreUnavailableError):
                ends.unavailable(task, error)
            elif task.stop.raised or not (error.final or outcome.attempts >= task.last_attempt):
                ends.again(task, outcome.attempts + 1)
            else:
                outcome.status, outcome.output = "failed", None
                ends(_failed(outcome, error.reason, str(error)))

        ends.sending(task)
        if not self._uploads.begin(outputs, sent):
            with task.waits.sending():
                self._uploads.send(outputs, sent)

    def close(self, slot: Slot) -> None:
        if pipes := self._pipes.pop(slot.number, None):
            pipes.close()

    def _run(self, task: Task, slot: Slot) -> _AttemptResult | None:
        output = ItemOutput(task.labels, task.watch)
        state = self._state_of(task, slot)
        try:
            return self._attempts(task, slot, output, state)
        finally:
            if state is not None:
                state.close()
                remove(state.folder)
            output.close()

    def _state_of(self, task: Task, slot: Slot) -> ItemState | None:
        if task.spec.state is None:
            return None
        from tidemill.worker.items.item_state import ItemState

        return ItemState(
            self._staging.stores.home,
            task.spec.state,
            (task.job, task.item.index, task.lease_id, task.round, task.run),
            slot.folder / "state",
            room=self._staging.room,
            stop=task.stop,
            labels=task.labels,
            like=task.item,
        )

    def _attempts(self, task: Task, slot: Slot, output: ItemOutput, state: ItemState | None) -> _AttemptResult | None:
        tried: _AttemptResult | None = None
        if task.attempt > 1 + task.more_attempts:
            task.stop.wait(pause_before(task.attempt))
        for attempt in range(task.attempt, task.last_attempt + 1):
            output.begin(attempt)
            blank = Outcome(index=task.item.index, uri=task.item.uri, status="failed", attempts=attempt)
            stops = task.stop.raised or task.stop.leaving
            tried = None if stops else self._attempt(task, slot, output, blank, state)
            if tried is None or (task.stop.raised and tried.outcome.status == "failed"):
                return None
            if tried.final or task.grows(tried.outcome):
                break
            if attempt < task.last_attempt:
                task.stop.wait(pause_before(attempt + 1, tried.outcome.reason))
        return tried

    def _attempt(
        self, task: Task, slot: Slot, output: ItemOutput, blank: Outcome, state: ItemState | None
    ) -> _AttemptResult | None:
        """One attempt, or None when the worker stopped in it."""
        outcome, results = blank, None
        try:
            with item_step("scratch", "the item's folders cannot be made"):
                results = slot.results()
            ended = self._run_program(task, slot, output, blank.attempts, results=results, state=state)
            if state is not None and ended.reason is not None:
                state.end(by_itself=0 <= (ended.exit_code or 0) < KILLED, succeeded=False)
            if ended.reason == "stopped":
                return None
            _measure(outcome, ended)
            if ended.reason is not None:
                return _AttemptResult(
                    _failed(outcome, ended.reason, _error(ended, output)), ended.final or ended.reason in _NOT_AGAIN
                )
            outputs = self._staging.look(results, task.prefix(blank.attempts))
            if state is not None or not task.overlaps:
                with task.waits.sending():
                    self._staging.send(outputs)
            if state is not None:
                # After the outputs: state that says "done" must not stand without them.
                with task.waits.sending():
                    state.end(by_itself=True, succeeded=True)
            outcome.status = "succeeded"
            outcome.output = outputs.prefix if outputs.files or task.spec.names_output_uri else None
            if not outputs.files or state is not None or not task.overlaps:
                return _AttemptResult(outcome, True)
            # It is given back when they are sent.
            results = None
            return _AttemptResult(outcome, True, outputs)
        except ItemError as error:
            return None if task.stop.raised else _AttemptResult(_failed(outcome, error.reason, str(error)), error.final)
        finally:
            # Every attempt fetches the input again: this one may have changed its copy.
            self._inputs.remove(task)
            if results is not None:
                slot.give_back(results)

    def _run_program(
        self, task: Task, slot: Slot, output: ItemOutput, attempt: int, *, results: Path, state: ItemState | None
    ) -> ProgramExit:
        with item_step("scratch", "the item's folders cannot be made"):
            work = slot.empty("work")
        limits, stop = limits_of(task.spec), task.stop
        with item_step("input", "the item's values cannot be handed to a program"):
            values = self._values(task, results, task.prefix(attempt))
            if state is not None:
                values["state"] = str(state.folder)
            own = {**meta_values(task.spec, task.item), **task.inputs}
            command = fill(task.spec.command or [], {**own, **values}, own)
            env = {**task.base_env, **slot.env, **child_variables(values), **_meta(task.item)}
            if task.spec.layout:
                # The caller's own variables win.
                env = {**env, **self._of_sagemaker(task, slot, results, values), **task.spec.env}
        left_something = True
        try:
            if state is not None:
                with task.waits.fetching():
                    state.prepare()
                state.begin()
                limits, stop = state.limits(limits), state.stop
            with item_step("exit", f"{command[0]} cannot be followed"):
                ended = run_program(
                    self._programs,
                    command,
                    cwd=work,
                    env=env,
                    limits=limits,
                    output=output,
                    pipes=self._pipes_of(slot),
                    stop=stop,
                    home=slot.folder,
                )
            left_something = ended.left_something
            return ended
        finally:
            if state is not None:
                state.pause()
            if left_something:
                # It may still hold the slot's pipes.
                self.close(slot)

    def _of_sagemaker(self, task: Task, slot: Slot, results: Path, values: Mapping[str, str]) -> dict[str, str]:
        config = slot.empty("sagemaker")
        return sagemaker.prepare(
            task.spec, task.item, sagemaker.Folders(results, config, state=values.get("state"), inputs=task.inputs)
        )

    def _pipes_of(self, slot: Slot) -> Pipes:
        if slot.number not in self._pipes:
            self._pipes[slot.number] = Pipes()
        return self._pipes[slot.number]

    def _values(self, task: Task, results: Path, prefix: str) -> dict[str, str]:
        values = {"uri": task.item.uri, "index": str(task.item.index), "output": str(results), "output_uri": prefix}
        if task.spec.stages_input:
            with task.waits.fetching():
                values["input"] = str(self._inputs.begin(task).result())
        return values


def limits_of(spec: JobSpec) -> Limits:
    """Limits of an item: its memory less the worker's own share, and never less than half of it."""
    memory = spec.resources.memory_mib
    limit = max(memory - WORKER_MIB / spec.slots, memory / 2)
    return Limits(spec.timeout_seconds, limit, gpus=spec.resources.gpus)


def pause_before(attempt: int, reason: str | None = None) -> float:
    """Seconds before an attempt after a failed one, from the second on: longer each time, and never in step. A full
    disk is shared, so it may have room in a minute."""
    if reason == "scratch":
        return FULL_PAUSE * random.uniform(0.5, 1.0)
    return min(_LAST_PAUSE, 0.25 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)


class _AttemptResult(NamedTuple):
    """An attempt that ended."""

    outcome: Outcome
    final: bool
    """True if it is the last: it succeeded, or trying again is useless."""
    outputs: Outputs | None = None
    """Outputs that must be uploaded before it has succeeded."""


def _meta(item: Item) -> dict[str, str]:
    """The user's metadata for the item, for its program."""
    return {} if item.meta is None else {"TIDEMILL_META": json.dumps(item.meta)}


def _measure(outcome: Outcome, ended: ProgramExit) -> None:
    outcome.exit_code = ended.exit_code
    outcome.wall_seconds = round(ended.wall_seconds, 3)
    outcome.cpu_seconds = round(ended.cpu_seconds, 3)
    outcome.peak_memory_mib = round(ended.peak_memory_mib, 1)
    measure_gpus(outcome, ended.gpu)


def measure_gpus(outcome: Outcome, use: GpuUse | None) -> None:
    """Record an item's GPU use, where that is known."""
    if use is not None:
        outcome.peak_gpu_memory_mib = None if use.memory_mib is None else round(use.memory_mib, 1)
        outcome.gpu_percent = None if use.percent is None else round(use.percent, 1)


def _failed(outcome: Outcome, reason: str, error: str) -> Outcome:
    outcome.reason, outcome.error = reason, error
    return outcome


def _error(ended: ProgramExit, output: ItemOutput) -> str:
    """The error that a user reads first: the program's last words, or what we know of its end."""
    printed = output.tail() if ended.reason in ("exit", "signal") else ""
    return printed or ended.error
