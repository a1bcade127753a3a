"""Function items: `module:function` in the image's own Python, which a shim of ours serves over a pipe.

The module is imported once a slot, so a model stays loaded. Several items travel in a message; each answer comes by
itself, so it is always known which item runs and since when: its time limit, its memory and its output are its own.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.ledger import Outcome
from tidemill.removal import remove
from tidemill.worker.items.missing_files import with_remedy
from tidemill.worker.items.run_item import limits_of, measure_gpus, pause_before
from tidemill.worker.items.staging import Staging
from tidemill.worker.items.task import OutcomeSink, Task
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import ItemOutput
from tidemill.worker.programs.faults import ItemError, item_step
from tidemill.worker.programs.programs import Programs
from tidemill.worker.programs.shim_process import POLL_SECONDS, Answer, ShimProcess
from tidemill.worker.programs.supervisor import Verdict

COALESCE_SECONDS = 0.002
"""Answers of fast items are read together: a look at the pipe costs more than such an item."""


class _Try(NamedTuple):
    task: Task
    attempt: int
    reason: str | None = None
    """Why the attempt before has failed."""


class FunctionRunner:
    """Runs function items in one slot. The module may be imported from `path`, before the interpreter's own folders."""

    def __init__(self, programs: Programs, staging: Staging, stop: Stop, *, python: str, path: Sequence[str]) -> None:
        self._programs, self._staging, self._stop = programs, staging, stop
        self._python, self._path = python, list(path)
        self._shim: ShimProcess | None = None
        self._job: tuple[str, Mapping[str, str], int] | None = None

    def run(self, tasks: Sequence[Task], slot: Slot, done: OutcomeSink) -> None:
        """Run items of a chunk; returns when all are done, or the worker or their job stops."""
        self._stop = tasks[0].stop
        waiting = deque(_Try(task, task.attempt) for task in tasks)
        later: list[tuple[float, _Try]] = []
        while (waiting or later) and not (self._stop.raised or self._stop.leaving):
            now = time.monotonic()
            due = [entry for entry in later if entry[0] <= now]
            later = [entry for entry in later if entry[0] > now]
            waiting.extend(entry[1] for entry in due)
            if not waiting:
                self._stop.wait(min(at for at, _ in later) - now)
                continue
            batch, waiting = list(waiting), deque()
            failed, left = self._serve(batch, slot, done)
            waiting.extend(left)
            later += [(time.monotonic() + pause_before(one.attempt, one.reason), one) for one in failed]
            if not self._stop.raised:
                slot.current = None

    def close(self) -> None:
        if self._shim:
            self._shim.end()
            self._shim = None

    def _serve(self, batch: list[_Try], slot: Slot, done: OutcomeSink) -> tuple[list[_Try], list[_Try]]:
        """Run items in a row. Returns those to try again, and those that were not reached."""
        first = batch[0]
        slot.current = first.task.item.index
        try:
            broken = self._start(first.task, slot)
        except ItemError as error:
            broken = _broken(error)
        run = _BatchRun(self._staging, self._stop, slot, done)
        if broken is not None or self._shim is None:
            if not self._stop.raised and broken:
                run.fail(first, broken)
            return run.failed, batch[1:] if not self._stop.raised else []
        left, alive = run.serve(self._shim, batch)
        if not alive:
            self._shim = None
        return run.failed, left

    def _start(self, task: Task, slot: Slot) -> Verdict | None:
        job = (task.job, task.base_env, task.spec.resources.memory_mib)
        if self._shim is not None and self._job == job:
            return None
        self.close()
        self._job = job
        shim = ShimProcess(self._programs, slot, limits_of(task.spec))
        env = {**task.base_env, **slot.env, "TIDEMILL_WORK": f"{slot.folder}/work"}
        # Beside shipped code, a module of the folder where the worker was started would be used unseen.
        path = [env["TIDEMILL_CODE"]] if env.get("TIDEMILL_CODE") else self._path
        settings = {
            "function": task.spec.function,
            "path": path,
            "values": str(slot.folder / "values"),
            "items": task.spec.item_type,
        }
        try:
            with item_step("start", f"{self._python} did not start"):
                broken = shim.start(self._python, env, settings, self._stop)
        except ItemError:
            shim.end()
            raise
        if broken is None:
            self._shim = shim
            return None
        return broken._replace(error=with_remedy(broken.error, env.get("TIDEMILL_CODE")))


class _BatchRun:
    """A batch of items in a shim."""

    _shim: ShimProcess

    def __init__(self, staging: Staging, stop: Stop, slot: Slot, done: OutcomeSink) -> None:
        self._staging, self._stop, self._slot, self._done = staging, stop, slot, done
        self.failed: list[_Try] = []
        """Attempts to repeat."""
        self._output: ItemOutput | None = None

    def serve(self, shim: ShimProcess, batch: list[_Try]) -> tuple[list[_Try], bool]:
        """Run them. Returns what was not reached, and whether the shim lives."""
        self._shim = shim
        step = 1 if {"input", "output", "output_uri"} & set(shim.wants) else len(batch)
        fetches: dict[int, Future[Path]] = {}
        for start in range(0, len(batch), step):
            part = batch[start : start + step]
            for one in batch[start : start + 2] if "input" in shim.wants else []:
                index = one.task.item.index
                if index not in fetches:
                    folder = self._slot.folder / f"input-{index}"
                    fetches[index] = self._fetch(one.task, folder)
            left, alive = self._part(part, fetches)
            if "input" in shim.wants:
                remove(self._slot.folder / f"input-{part[0].task.item.index}")
            if not alive or self._stop.raised:
                return [] if self._stop.raised else [*left, *batch[start + step :]], alive
        return [], True

    def _part(self, part: list[_Try], fetches: dict[int, Future[Path]]) -> tuple[list[_Try], bool]:
        """Run items of one message; returns those that were not reached, and whether the shim lives."""
        waiting: deque[_Try] = deque()
        messages: list[str] = []
        remove(self._slot.folder / "values")
        for one in part:
            try:
                messages.append(self._message(one, fetches))
                waiting.append(one)
            except ItemError as error:
                if not self._stop.raised:
                    self.fail(one, _broken(error))
        if not waiting:
            return [], True
        try:
            with item_step("exit", "the process of the function cannot be followed"):
                broken = self._follow(waiting, f"[{','.join(messages)}]")
        except ItemError as error:
            broken = _broken(error)
        if broken is None:
            return [], True
        if not waiting:
            self._shim.end()
            return [], False
        self._break(waiting.popleft(), broken)
        return list(waiting), False

    def _follow(self, waiting: deque[_Try], message: str) -> Verdict | None:
        """Have the shim run items, and take each from the queue when it is settled. Returns what ended the shim, if
        anything."""
        shim = self._shim
        shim.tell(message)
        shim.supervisor.begin()
        while waiting:
            self._slot.current = waiting[0].task.item.index
            # Output up to here is this item's, if it has no answer yet.
            sizes = shim.sizes()
            if self._take_answers(waiting, shim.answers(POLL_SECONDS)):
                if waiting:
                    time.sleep(COALESCE_SECONDS)
                continue
            self._hear(waiting[0], *sizes)
            if not self._stop.raised and shim.supervisor.exited():
                if not self._take_answers(waiting, shim.answers(0)):
                    return Verdict("exit", "")
            elif reason := shim.supervisor.check(self._stop):
                return Verdict(reason, "")
        shim.supervisor.gpu_use()
        return None

    def _take_answers(self, waiting: deque[_Try], answers: list[Any]) -> bool:
        """Settle the items that were answered; says whether any was."""
        for answer in answers:
            if not waiting:
                raise ItemError("exception", "the function answered for an item that was not asked for")
            with item_step("exception", "the function wrote to the pipe on which its process answers"):
                read = Answer.read(answer)
            self._record(waiting[0], read)
            if read.file is not None or read.error is not None:
                # The shim waits while there are many.
                remove(self._slot.folder / "values" / str(read.n))
            waiting.popleft()
        return bool(answers)

    def _message(self, one: _Try, fetches: dict[int, Future[Path]]) -> str:
        item, wants = one.task.item, self._shim.wants
        values: dict[str, Any] = {"uri": item.uri}
        if wants != ["uri"]:
            values |= {"index": item.index, "meta": item.meta, "output_uri": one.task.prefix(one.attempt)}
        if "output" in wants:
            with item_step("scratch", "the item's folders cannot be made"):
                values["output"] = str(self._slot.empty("output"))
        with item_step("input", "the item's values cannot be handed to a function"):
            if "input" in wants:
                fetch = fetches.pop(item.index, None)
                folder = self._slot.folder / f"input-{item.index}"
                with one.task.waits.fetching():
                    values["input"] = str((fetch or self._fetch(one.task, folder)).result())
            return json.dumps(values)

    def _fetch(self, task: Task, folder: Path) -> Future[Path]:
        return self._staging.fetch(task.item.uri, folder, self._stop, task.reader)

    def _record(self, one: _Try, answer: Answer) -> None:
        gpu = self._shim.supervisor.gpu_use()
        self._hear(one, answer.out, answer.err)
        self._end_output()
        item = one.task.item
        outcome = Outcome(
            index=item.index,
            uri=item.uri,
            status="succeeded",
            exit_code=answer.code,
            attempts=one.attempt,
            wall_seconds=round(answer.wall, 3),
            cpu_seconds=round(answer.cpu, 3),
            peak_memory_mib=round(max(answer.peak_kib / 1024, self._shim.supervisor.meter.peak_mib()), 1),
            value=answer.value,
            value_file=answer.file,
        )
        measure_gpus(outcome, gpu)
        # The next item of the message is already running.
        self._shim.supervisor.begin()
        self._shim.said_from = answer.err
        if answer.error is not None:
            code = one.task.base_env.get("TIDEMILL_CODE")
            outcome.status, outcome.error = "failed", with_remedy(answer.error, code)
            outcome.reason = "exception" if answer.code in (0, 1) else "exit"
            if answer.code == 0:
                # The value cannot be kept: another attempt would return the same.
                self._done(outcome)
            else:
                self._retry_or_record(one, outcome)
            return
        try:
            with one.task.waits.sending():
                outcome.output = self._uploaded(one, answer)
        except ItemError as error:
            if not self._stop.raised:
                self.fail(one, _broken(error))
            return
        self._done(outcome)

    def _uploaded(self, one: _Try, answer: Answer) -> str | None:
        """Upload the item's output folder and the file of its value; returns the prefix if there is anything."""
        wants, folder, prefix = self._shim.wants, self._slot.folder, one.task.prefix(one.attempt)
        files = self._staging.upload(folder / "output", prefix) if "output" in wants else 0
        if answer.file is not None:
            files += self._staging.upload(folder / "values" / str(answer.n), prefix)
        return prefix if files or "output_uri" in wants else None

    def _hear(self, one: _Try, out: int, err: int) -> None:
        """Pass on what an item has written, up to these offsets of its stdout and stderr."""
        for name, data in (("stdout", self._shim.written(1, out)), ("stderr", self._shim.written(2, err))):
            if data:
                if self._output is None:
                    self._output = ItemOutput(one.task.labels, one.task.watch)
                    self._output.begin(one.attempt)
                self._output.feed(name, data)

    def _end_output(self) -> None:
        if self._output is not None:
            self._output.end()
            self._output.close()
            self._output = None

    def _break(self, one: _Try, broken: Verdict) -> None:
        """The shim is gone, or has to go, while an item runs."""
        tail, shim = "", self._shim
        with suppress(ItemError), item_step("exit", "what it said cannot be read"):
            self._hear(one, *shim.sizes())
            self._end_output()
            tail = shim.tail()
        code = shim.end()
        if broken.reason == "stopped" or self._stop.raised:
            return
        if not broken.error:
            broken = shim.supervisor.verdict(shim.reaped) or Verdict("exit", "exit code 0")
            if broken.reason == "exit":
                broken = broken._replace(error=tail or f"its process ended with {broken.error}")
            elif broken.reason == "signal":
                broken = broken._replace(error=tail or broken.error)
        self.fail(one, broken._replace(exit_code=code))

    def fail(self, one: _Try, broken: Verdict) -> None:
        """An attempt failed: the item is tried again, unless that is useless or was the last."""
        item = one.task.item
        outcome = Outcome(
            index=item.index,
            uri=item.uri,
            status="failed",
            reason=broken.reason,
            exit_code=broken.exit_code,
            attempts=one.attempt,
            error=broken.error,
        )
        if broken.final:
            self._done(outcome)
        else:
            self._retry_or_record(one, outcome)

    def _retry_or_record(self, one: _Try, outcome: Outcome) -> None:
        if one.task.grows(outcome):
            self._done.again(one.task, one.attempt + 1, one.task.more_memory_mib)
        elif one.attempt < one.task.last_attempt and not self._stop.raised:
            self.failed.append(_Try(one.task, one.attempt + 1, outcome.reason))
        else:
            self._done(outcome)


def _broken(error: ItemError) -> Verdict:
    return Verdict(error.reason, str(error), final=error.final)
