"""Whatever a step of an item raises, that item fails with a reason and its neighbours succeed. The runners, programs,
folders and store are real, the exceptions are put in; the loop around the slots is not here."""

from __future__ import annotations

import builtins
import errno
import json
import os
import sys
from collections.abc import Callable

import pytest

from tidemill.client.plan.spec import build_spec
from tidemill.errors import StoreUnavailableError
from tidemill.job import Item
from tidemill.ledger import Outcome
from tidemill.store import Store, Stores
from tidemill.worker.items import function, run_item, staging
from tidemill.worker.items.runners import Runners
from tidemill.worker.items.staging import Staging
from tidemill.worker.items.task import Task
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import ItemOutput
from tidemill.worker.programs.programs import Programs
from tidemill.worker.programs.shim_process import ShimProcess

FAMILIES = (OSError, ValueError, RuntimeError, MemoryError)
NUMBERS = (
    "ENOSPC EDQUOT ENOMEM EAGAIN EMFILE ENFILE ENOENT EACCES EPERM EIO ESTALE EROFS ELOOP ENAMETOOLONG EPIPE EINTR"
)
MODULE = """
def work(uri, output, input, meta):
    print("said", uri)
    open(output + "/result", "w").write(open(input).read())
"""


def raised() -> list[Exception]:
    """One of every class of the families, and of the numbers that the kernel sends most."""
    kinds = [one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, FAMILIES)]
    arguments = {
        UnicodeEncodeError: ("utf-8", "\ud800", 0, 1, "no"),
        UnicodeDecodeError: ("utf-8", b"\xff", 0, 1, "no"),
        UnicodeTranslateError: ("\ud800", 0, 1, "no"),
        MemoryError: (),
    }
    errors = [kind(*arguments.get(kind, ("put in",))) for kind in sorted(set(kinds), key=lambda one: one.__name__)]
    numbers = [getattr(errno, name) for name in NUMBERS.split()]
    return [*errors, json.JSONDecodeError("no", "x", 0), *(OSError(n, os.strerror(n)) for n in numbers)]


def expected(error: Exception, kind: str, reason: str) -> str:
    """The reason of the outcome: a machine that has run out of something is not the step's fault."""
    number = error.errno if isinstance(error, OSError) else None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return "scratch"
    if (kind, reason) == ("command", "start") and isinstance(error, ValueError):
        reason = "input"  # no program takes such arguments
    short = number in (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
    return "memory" if short or isinstance(error, MemoryError) else reason


BOTH = [
    ("folders", Slot, "empty", "scratch"),
    ("fetch", staging, "open_plain", "input"),
    ("list the output", staging, "output_files", "output"),
    ("upload", Store, "upload", "output"),
]
STEPS = [
    *((kind, *step) for kind in ("command", "function") for step in BOTH),
    ("command", "fill placeholders", run_item, "fill", "input"),
    ("command", "encode", run_item, "_meta", "input"),
    ("command", "start", Programs, "start", "start"),
    ("command", "read output", ItemOutput, "feed", "exit"),
    ("command", "end of the output", ItemOutput, "end", "exit"),
    ("function", "encode", function.json, "dumps", "input"),
    ("function", "start", Programs, "start", "start"),
    ("function", "read output", ShimProcess, "answers", "exit"),
]


class Outcomes(list[Outcome]):
    """What a runner tells, without overlapping uploads."""

    def __call__(self, outcome: Outcome) -> None:
        self.append(outcome)

    def sending(self, task: Task) -> None:
        raise NotImplementedError

    def unavailable(self, task: Task, error: StoreUnavailableError) -> None:
        raise NotImplementedError

    def again(self, task: Task, attempt: int, memory_mib: int | None = None) -> None:
        raise NotImplementedError


class Ran:
    """Items of a job in one slot, of which every second meets a fault."""

    def __init__(self, folder, kind: str) -> None:
        self.faults = [fault for error in raised() for fault in (None, error)] + [None]
        self.source = folder / "source"
        self.source.write_text("text")
        what = {"command": ["sh", "-c", 'echo said; cp "$TIDEMILL_INPUT" "$TIDEMILL_OUTPUT/result"']}
        if kind == "function":
            (folder / "work.py").write_text(MODULE)
            what = {"function": "work:work"}
        self.spec = build_spec(
            name="t", queue="q", attempts=1, chunk_size=1, items_total=1, chunks_total=1, timeout_seconds=60, **what
        )
        self.stop = Stop()
        self.scratch = Scratch(folder / "scratch", "one")
        self.staging = Staging(Stores(), self.scratch)
        self.runners = Runners(self.staging, self.scratch, self.stop, sys.executable)
        self.slot = Slot(0, self.scratch.folder / "slot-0")
        self.prefix = f"file://{folder}/out"
        self.outcomes = Outcomes()

    def put_in(self, owner: object, name: str, monkeypatch) -> None:
        """Have a step raise what the item that runs shall meet."""
        step: Callable = getattr(owner, name)

        def broken(*args, **kwargs):
            fault = self.faults[self.slot.current] if self.slot.current is not None else None
            if fault is not None:
                raise fault
            return step(*args, **kwargs)

        monkeypatch.setattr(owner, name, broken)

    def run(self, *, fresh: bool) -> None:
        env = {"PATH": os.environ["PATH"]}
        for n in range(len(self.faults)):
            item = Item(n, str(self.source), {"n": n})
            # Where uploads overlap, tests/unit/worker/items/test_uploads.py has their faults.
            task = Task("t-00000000", 0, "a1", self.spec, item, self.prefix, env, self.stop, overlaps=False)
            self.runners.run([task], self.slot, self.outcomes)
            if fresh:
                self.runners.close(self.slot)
        self.runners.close(self.slot)
        self.staging.close()
        self.scratch.close()


@pytest.mark.parametrize("case", STEPS, ids=[f"{step[0]} {step[1]}" for step in STEPS])
@pytest.mark.usefixtures("capsysbinary")
def test_whatever_a_step_raises_is_the_items_outcome(case, tmp_path, monkeypatch):
    kind, step, owner, name, reason = case
    monkeypatch.chdir(tmp_path)
    ran = Ran(tmp_path, kind)
    ran.put_in(owner, name, monkeypatch)
    ran.run(fresh=step == "start")
    assert [outcome.index for outcome in ran.outcomes] == list(range(len(ran.faults)))
    found = [(repr(ran.faults[one.index]), one.status, one.reason) for one in ran.outcomes]
    wanted = [
        (repr(fault), "succeeded", None) if fault is None else (repr(fault), "failed", expected(fault, kind, reason))
        for fault in ran.faults
    ]
    assert found == wanted
    assert all(one.error and len(one.error) < 5000 for one in ran.outcomes if one.status == "failed")
    assert all(one.line() for one in ran.outcomes)
