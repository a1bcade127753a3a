"""Function items: `module:function` in the image's own Python, which a shim of ours serves over a pipe.

The module is imported once a slot, so a model stays loaded. Several items travel in a message; each answer comes by
itself, so it is always known which item runs and since when: its time limit, its memory and its output are its own.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.ledger import Outcome
from tidemill.worker.consumption import Consumption, prefer_at_oom
from tidemill.worker.gpus import GpuUse, Window
from tidemill.worker.output import ITEM_BYTES, ItemOutput
from tidemill.worker.process import SAMPLE_SECONDS, Limits, Programs, exit_descriptor, signal_name
from tidemill.worker.run_item import Task, limits_of, measure_gpus, pause_before
from tidemill.worker.slots import Slot
from tidemill.worker.staging import Staging, StagingError
from tidemill.worker.stop import Stop

POLL_SECONDS = 0.2
COALESCE_SECONDS = 0.002
"""Answers of fast items are read together: a look at the pipe costs more than such an item."""
_READ_BYTES = 1 << 18
_LONG_FILE = 16 << 20
Done = Callable[[Outcome], None]


class _Try(NamedTuple):
    task: Task
    attempt: int


class _Broken(NamedTuple):
    """How a shim ended while an item ran."""

    reason: str
    error: str
    exit_code: int | None


@cache
def _source() -> str:
    return Path(__file__).with_name("shim.py").read_text()


class FunctionRunner:
    """Runs function items in one slot.

    Args:
        programs: The worker's programs.
        staging: Moves inputs and outputs.
        stop: Ends it.
        python: The interpreter.
        path: Folders from which the module may be imported, before the interpreter's own.
    """

    def __init__(self, programs: Programs, staging: Staging, stop: Stop, *, python: str, path: Sequence[str]) -> None:
        self._programs, self._staging, self._stop = programs, staging, stop
        self._python, self._path = python, list(path)
        self._shim: _Shim | None = None
        self._job: tuple[str, Mapping[str, str]] | None = None

    def run(self, tasks: Sequence[Task], slot: Slot, done: Done) -> None:
        """Run items of a chunk; returns when all are done, or the worker or their job stops.

        Args:
            tasks: The items.
            slot: Where.
            done: Told each outcome.
        """
        self._stop = tasks[0].stop
        waiting = deque(_Try(task, 1) for task in tasks)
        later: list[tuple[float, _Try]] = []
        while (waiting or later) and not self._stop:
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
            later += [(time.monotonic() + pause_before(one.attempt), one) for one in failed]
            if not self._stop:
                slot.current = None

    def close(self) -> None:
        """End the shim."""
        if self._shim:
            self._shim.end(signal.SIGKILL, 0)
            self._shim = None

    def _serve(self, batch: list[_Try], slot: Slot, done: Done) -> tuple[list[_Try], list[_Try]]:
        """Run items in a row. Returns those to try again, and those that were not reached."""
        first = batch[0]
        slot.current = first.task.item.index
        broken = self._start(first.task, slot)
        if broken is not None or self._shim is None:
            if not self._stop and broken:
                done(_failed(first, broken))
            return [], batch[1:] if not self._stop else []
        serving = _Serving(self._shim, self._staging, self._stop, slot, done)
        failed, left, alive = serving.serve(batch)
        if not alive:
            self._shim = None
        return failed, left

    def _start(self, task: Task, slot: Slot) -> _Broken | None:
        """Have a shim that serves the task's function."""
        job = (task.job, task.base_env)
        if self._shim is not None and self._job == job:
            return None
        self.close()
        self._job = job
        shim = _Shim(self._programs, slot, limits_of(task.spec))
        env = {**task.base_env, **slot.env, "TIDEMILL_WORK": f"{slot.folder}/work"}
        # What was shipped wins over what lies in the image's folder.
        path = [*filter(None, [env.get("TIDEMILL_CODE")]), *self._path]
        broken = shim.start(self._python, env, {"function": task.spec.function, "path": path}, self._stop)
        if broken is None:
            self._shim = shim
        return broken


class _Shim:
    """A shim's process and its pipes."""

    def __init__(self, programs: Programs, slot: Slot, limits: Limits) -> None:
        self.programs, self._slot, self.limits = programs, slot, limits
        self.wants: list[str] = []
        self._buffer = b""
        self._read_to = {1: 0, 2: 0}
        self._hole = {1: 0, 2: 0}
        self._look_at = time.monotonic() + SAMPLE_SECONDS
        self._window: Window | None = None

    def start(self, python: str, env: Mapping[str, str], told: dict[str, Any], stop: Stop) -> _Broken | None:
        """Start it and let it import the module; what went wrong, or None."""
        theirs_in, self._requests = os.pipe()
        self._answers, theirs_out = os.pipe()
        self._slot.folder.mkdir(parents=True, exist_ok=True)
        self._files = {
            n: os.open(self._slot.folder / f"out{n}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) for n in (1, 2)
        }
        try:
            self._child = self.programs.start(
                [python, "-c", _source(), str(theirs_in), str(theirs_out)],
                cwd=self._slot.empty("work"),
                env=env,
                stdout=self._files[1],
                stderr=self._files[2],
                pass_fds=(theirs_in, theirs_out),
            )
        except (OSError, ValueError) as error:
            self._close()
            return _Broken("start", f"{python} did not start: {error}", None)
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._env = env
        self._exit = exit_descriptor(self._child.pid)
        self._consumption = Consumption(self._child.pid, self.programs.table)
        prefer_at_oom(self._child.pid)
        self.tell(told)
        deadline = time.monotonic() + self.limits.seconds
        while not stop and time.monotonic() < deadline:
            for answer in self.answers(POLL_SECONDS):
                if answer[0] == "ready":
                    self.wants = answer[1]
                    return None
                self.end(signal.SIGKILL, 0)
                return _Broken("start", answer[1], None)
            if self.exited():
                said = self.tail()
                code = self.end(signal.SIGKILL, 0)
                return _Broken(
                    "start", said or f"the Python of the function ended with {code} while importing it", code
                )
        self.end(signal.SIGTERM, self.limits.grace_seconds)
        return (
            None if stop else _Broken("timeout", f"killed: its import took more than {self.limits.seconds:g} s", None)
        )

    def tell(self, message: Any) -> None:
        """Send a line; a shim that has ended is noticed elsewhere."""
        data = (json.dumps(message) + "\n").encode()
        with suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._requests, data) :]

    def answers(self, seconds: float) -> list[Any]:
        """Answers that have come; waits for the first."""
        listened = [self._answers] if self._exit is None else [self._answers, self._exit]
        if self._answers not in select.select(listened, [], [], max(0.0, seconds))[0]:
            return []
        *lines, self._buffer = (self._buffer + os.read(self._answers, _READ_BYTES)).split(b"\n")
        return [json.loads(line) for line in lines]

    def exited(self) -> bool:
        """Whether the process has ended; it is not reaped yet."""
        return os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def over_memory(self) -> float | None:
        """Its memory in MiB when that is over the limit; looked at twice a second."""
        if time.monotonic() < self._look_at:
            return None
        self._look_at = time.monotonic() + SAMPLE_SECONDS
        self._consumption.sample()
        used = self._consumption.peak_mib()
        limit = self.limits.memory_mib
        return used if limit is not None and used > limit else None

    def open_window(self) -> None:
        """An item begins: look at its GPUs, where it has any."""
        if self.programs.gpus is not None:
            self._window = self.programs.gpus.open(self._env, self.limits.gpus > 0)

    def close_window(self) -> GpuUse | None:
        """An item has ended, or none runs."""
        window, self._window = self._window, None
        return self.programs.gpus.close(window) if self.programs.gpus is not None else None

    @property
    def peak_mib(self) -> float:
        """Of the process and its children, as far as it was looked at."""
        return self._consumption.peak_mib()

    def sizes(self) -> tuple[int, int]:
        """Bytes of stdout and stderr so far."""
        return os.fstat(self._files[1]).st_size, os.fstat(self._files[2]).st_size

    def written(self, stream: int, until: int) -> bytes:
        """What was written to stdout (1) or stderr (2) since the last call, up to an offset."""
        start = self._read_to[stream]
        if until <= start:
            return b""
        # More than an item may say is cut anyway; its last bytes are kept, for they tell why it failed.
        start = max(start, until - 2 * ITEM_BYTES)
        data = os.pread(self._files[stream], until - start, start)
        self._read_to[stream] = until
        if until - self._hole[stream] > _LONG_FILE:
            # The writer's offset stays where it is: what was read becomes a hole.
            os.ftruncate(self._files[stream], 0)
            self._hole[stream] = until
        return data

    def tail(self) -> str:
        """The end of stderr."""
        size = os.fstat(self._files[2]).st_size
        start = max(0, size - 4096)
        return os.pread(self._files[2], size - start, start).decode("utf-8", "replace").strip()

    def end(self, first: signal.Signals, grace_seconds: float) -> int:
        """End it and everything it started; returns its exit code."""
        self.programs.stop_program(self._child, first, grace_seconds)
        reaped = self.programs.reap(self._child, self._consumption)
        self._close()
        return reaped.exit_code

    def _close(self) -> None:
        exit_ = getattr(self, "_exit", None)
        for descriptor in (self._requests, self._answers, *self._files.values(), *([] if exit_ is None else [exit_])):
            os.close(descriptor)


class _Serving:
    """A batch of items in a shim."""

    def __init__(self, shim: _Shim, staging: Staging, stop: Stop, slot: Slot, done: Done) -> None:
        self._shim, self._staging, self._stop, self._slot, self._done = shim, staging, stop, slot, done
        self._failed: list[_Try] = []
        self._output: ItemOutput | None = None

    def serve(self, batch: list[_Try]) -> tuple[list[_Try], list[_Try], bool]:
        """Run them. Returns what to try again, what was not reached, and whether the shim lives."""
        step = 1 if {"input", "output", "output_uri"} & set(self._shim.wants) else len(batch)
        fetches: dict[int, Future[Path]] = {}
        for start in range(0, len(batch), step):
            part = batch[start : start + step]
            for one in batch[start : start + 2] if "input" in self._shim.wants else []:
                index = one.task.item.index
                if index not in fetches:
                    folder = self._slot.folder / f"input-{index}"
                    fetches[index] = self._staging.fetch(one.task.item.uri, folder, self._stop)
            served, alive = self._part(part, fetches)
            if not alive or self._stop:
                return self._failed, [] if self._stop else [*part[served:], *batch[start + step :]], alive
        return self._failed, [], True

    def _part(self, part: list[_Try], fetches: dict[int, Future[Path]]) -> tuple[int, bool]:
        """Run items of one message; returns how many are settled, and whether the shim lives."""
        try:
            values = [self._values(one, fetches) for one in part]
        except StagingError as error:
            if not self._stop:
                self._fail(part[0], _Broken(error.reason, str(error), None), error.final)
            return 1, True
        self._shim.tell(values)
        served, since = 0, time.monotonic()
        self._shim.open_window()
        while served < len(part):
            self._slot.current = part[served].task.item.index
            # What was written by now is this item's, if no answer of it comes in this look.
            sizes = self._shim.sizes()
            answers = self._shim.answers(
                min(POLL_SECONDS, max(0.0, since + self._shim.limits.seconds - time.monotonic()))
            )
            for answer in answers:
                self._settle(part[served], answer)
                served += 1
            if answers:
                since = time.monotonic()
                if served < len(part):
                    time.sleep(COALESCE_SECONDS)
                continue
            self._hear(part[served], *sizes)
            broken = self._look(since)
            if broken is not None and broken.reason == "exit" and (answers := self._shim.answers(0)):
                for answer in answers:
                    self._settle(part[served], answer)
                    served += 1
            elif broken is not None:
                self._break(part[served], broken)
                return served + 1, False
        self._shim.close_window()
        if "input" in self._shim.wants:
            shutil.rmtree(self._slot.folder / f"input-{part[0].task.item.index}", ignore_errors=True)
        return served, True

    def _values(self, one: _Try, fetches: dict[int, Future[Path]]) -> dict[str, Any]:
        item, wants = one.task.item, self._shim.wants
        values: dict[str, Any] = {"uri": item.uri}
        if wants == ["uri"]:
            return values
        values |= {"index": item.index, "meta": item.meta, "output_uri": one.task.prefix(one.attempt)}
        if "output" in wants:
            values["output"] = str(self._slot.empty("output"))
        if "input" in wants:
            fetch = fetches.pop(item.index, None)
            folder = self._slot.folder / f"input-{item.index}"
            values["input"] = str((fetch or self._staging.fetch(item.uri, folder, self._stop)).result())
        return values

    def _settle(self, one: _Try, answer: list[Any]) -> None:
        _, error, code, wall, cpu, peak, out, err, value = answer
        gpu = self._shim.close_window()
        self._hear(one, out, err)
        self._end_output()
        item = one.task.item
        outcome = Outcome(
            index=item.index,
            uri=item.uri,
            status="succeeded",
            exit_code=code,
            attempts=one.attempt,
            wall_seconds=round(wall, 3),
            cpu_seconds=round(cpu, 3),
            peak_memory_mib=round(max(peak / 1024, self._shim.peak_mib), 1),
            value=value,
        )
        measure_gpus(outcome, gpu)
        # The next item of the message runs already.
        self._shim.open_window()
        if error is not None:
            outcome.status, outcome.reason, outcome.error = "failed", "exception" if code == 1 else "exit", error
            self._settle_failed(one, outcome)
            return
        if {"output", "output_uri"} & set(self._shim.wants):
            try:
                prefix = one.task.prefix(one.attempt)
                files = (
                    self._staging.upload(self._slot.folder / "output", prefix) if "output" in self._shim.wants else 0
                )
                outcome.output = prefix if files or "output_uri" in self._shim.wants else None
            except StagingError as failure:
                if not self._stop:
                    self._fail(one, _Broken(failure.reason, str(failure), None), failure.final)
                return
        self._done(outcome)

    def _look(self, since: float) -> _Broken | None:
        """What ends the item that runs, if anything does."""
        shim, limits = self._shim, self._shim.limits
        if self._stop:
            return _Broken("stopped", "", None)
        if shim.exited():
            return _Broken("exit", "", None)
        if time.monotonic() - since > limits.seconds:
            return _Broken("timeout", f"killed: its time limit is {limits.seconds:g} s", None)
        used = shim.over_memory()
        if used is not None:
            return _Broken("memory", f"killed: it held {used:.0f} MiB, its limit is {limits.memory_mib:.0f} MiB", None)
        return None

    def _hear(self, one: _Try, out: int, err: int) -> None:
        """Pass on what an item has written, up to these offsets of its stdout and stderr."""
        for name, data in (("stdout", self._shim.written(1, out)), ("stderr", self._shim.written(2, err))):
            if data:
                if self._output is None:
                    self._output = ItemOutput(one.task.labels)
                    self._output.begin(one.attempt)
                self._output.feed(name, data)

    def _end_output(self) -> None:
        if self._output is not None:
            self._output.end()
            self._output.close()
            self._output = None

    def _break(self, one: _Try, broken: _Broken) -> None:
        """The shim is gone, or has to go, while an item runs."""
        gentle = broken.reason in ("timeout", "stopped")
        self._shim.close_window()
        self._hear(one, *self._shim.sizes())
        self._end_output()
        tail = self._shim.tail()
        code = self._shim.end(signal.SIGTERM if gentle else signal.SIGKILL, self._shim.limits.grace_seconds)
        if broken.reason == "stopped":
            return
        if broken.reason == "exit":
            if code == -signal.SIGKILL and self._shim.programs.killed_by_kernel():
                broken = _Broken("memory", "killed by the kernel: the container was out of memory", code)
            elif code < 0:
                broken = _Broken("signal", tail or f"killed by {signal_name(-code)}", code)
            else:
                broken = _Broken("exit", tail or f"its process ended with exit code {code}", code)
        self._fail(one, broken._replace(exit_code=code), False)

    def _fail(self, one: _Try, broken: _Broken, final: bool) -> None:
        outcome = _outcome(one, broken)
        self._done(outcome) if final else self._settle_failed(one, outcome)

    def _settle_failed(self, one: _Try, outcome: Outcome) -> None:
        if one.attempt < one.task.spec.attempts and not self._stop:
            self._failed.append(_Try(one.task, one.attempt + 1))
        else:
            self._done(outcome)


def _failed(one: _Try, broken: _Broken) -> Outcome:
    return _outcome(one, broken)


def _outcome(one: _Try, broken: _Broken) -> Outcome:
    item = one.task.item
    return Outcome(
        index=item.index,
        uri=item.uri,
        status="failed",
        reason=broken.reason,
        exit_code=broken.exit_code,
        attempts=one.attempt,
        error=broken.error,
    )
