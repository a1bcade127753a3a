"""The stack of a personal pipeline: preview, up and removal, judged by the policy pack."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pulumi import automation

from tidemill.folders import while_needed

from ..config.load import PROJECT
from ..money import Book, estimate, total, usd
from ..program import run
from .engine import StateHome, on_this_machine, open_stack
from .pack import policies
from .runs import QUIET, Say, printing, take_away, told, unlocked
from .stack_file import ENVIRONMENT, StackFile, StackOptions


@dataclass(frozen=True)
class PersonalPrices:
    """Prices in US dollars, as texts.

    Attributes:
        idle_month: Of a month without work.
        burn_hour: Of an hour at full capacity.
        home_month: Of the key of the state, per month.
    """

    idle_month: str
    burn_hour: str
    home_month: str


class PersonalStack:
    """The stack that a file describes.

    Args:
        file: Its file.
        command: The Pulumi CLI.
        home: Where its state is; None where there is none yet: then all that can be done is a preview.
    """

    def __init__(self, file: StackFile, command: automation.PulumiCommand, home: StateHome | None) -> None:
        self._file, self._command, self._home = file, command, home

    def restore_file(self) -> None:
        """Write the file as the last `up` had it, on a machine that has none. It stays absent before the first `up`."""
        with told():
            stack = self._open()
            if stack.info() is not None:
                stack.refresh_config()
            else:
                self._file.path.unlink(missing_ok=True)

    def change(self, options: StackOptions) -> None:
        """Set options in the file."""
        if not (values := options.assignments()):
            return
        with while_needed("stack") as scratch, told():
            # Any stack will do: only its file is changed.
            here = on_this_machine(scratch)
            stack = self._open() if self._home else self._opened(self._file.folder, here, ())
            stack.set_all_config(values, path=True)
            if self._home is None:
                self._file.unbind()

    def unlock(self) -> list[str]:
        """Remove the lock of a run that was killed; returns the resources that it may have made without a record."""
        return unlocked(self._open())

    def preview(self, say: Say) -> dict[str, int]:
        """Show what an `up` would change; returns how many resources, by operation, without those that stay."""
        with self._judged() as (stack, options), told():
            summary = stack.preview(**printing(say), **options).change_summary
        return {automation.OpType(each).value: count for each, count in summary.items() if each not in QUIET}

    def up(self, say: Say) -> dict[str, Any]:
        """Make or change the pipeline; returns the stack's outputs."""
        with self._judged() as (stack, options), told():
            outputs = stack.up(**printing(say), **options).outputs
        return {name: output.value for name, output in outputs.items()}

    def neighbours(self) -> list[str]:
        """The names of all stacks whose state is in the same home, its own and that of the home among them."""
        with told():
            return [each.name for each in self._open().workspace.list_stacks(include_all=True)]

    def pipeline_uri(self) -> str | None:
        """The URI of the descriptor; None before the first `up` is done, and after a `down` that was interrupted."""
        with told():
            stack = self._open()
            found = stack.outputs().get("pipeline_uri")
            deployment = stack.export_stack().deployment or {}
        stands = any(each["urn"].endswith("-store-pipeline") for each in deployment.get("resources") or [])
        return found.value if found and stands else None

    def remove(self, say: Say) -> None:
        """Delete the pipeline with all data. The stack stays, empty, as long as its home does."""
        with told():
            take_away(self._open(allow=["purge"]), say)

    def prices(self, region: str) -> PersonalPrices:
        """The prices of the stack and of its home."""
        costs = estimate(self._file.config(), region)
        key = Book(self._file.cloud, region).line("key of the state", 1, "kms_key_month")
        return PersonalPrices(usd(costs.idle), usd(costs.burn), usd(total([key])))

    @contextmanager
    def _judged(self) -> Iterator[tuple[automation.Stack, Mapping[str, Any]]]:
        """The stack, and the policy pack's options. Without a home the stack is a trial on this machine."""
        with while_needed("stack") as scratch:
            pack = policies(scratch, ENVIRONMENT)
            yield self._open() if self._home else self._trial(scratch), pack

    def _trial(self, scratch: Path) -> automation.Stack:
        folder = scratch / "trial"
        folder.mkdir()
        shutil.copy(self._file.path, folder)
        trial = StackFile(folder, self._file.team, self._file.cloud)
        trial.unbind()
        return self._opened(folder, on_this_machine(scratch / "state"), ())

    def _open(self, allow: Sequence[str] = ()) -> automation.Stack:
        assert self._home is not None
        return self._opened(self._file.folder, self._home, allow)

    def _opened(self, folder: Path, home: StateHome, allow: Sequence[str]) -> automation.Stack:
        return open_stack(
            self._file.stack, PROJECT, partial(run, allow), folder=folder, home=home, command=self._command
        )
