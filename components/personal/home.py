"""The home of a personal pipeline: the bucket and the key of its state, which are a stack of their own.

The bucket holds the state of its own stack, too. While the bucket is made or deleted, that state is in a folder of this
machine. A state that is there is the newest: an interrupted run goes on from it.
"""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pulumi import automation

from tidemill.folders import while_needed

from ..rooms import cloud_room
from .engine import StateHome, on_this_machine, open_stack
from .pack import policies
from .runs import Say, printing, take_away, told, unlocked

PROJECT = "tidemill-home"
_POLICIES = "account"
"""The policy pack's config, as of a bootstrap stack."""


class HomeStack:
    """The stack of a home.

    Args:
        cloud: Its cloud.
        name: Its name, with which the bucket's begins.
        settings: The settings of the cloud's provider.
        folder: Where its state is while it is not in the bucket.
        command: The Pulumi CLI.
    """

    def __init__(
        self,
        cloud: str,
        name: str,
        *,
        settings: Mapping[str, Any],
        folder: Path,
        command: automation.PulumiCommand,
    ) -> None:
        self._cloud, self._name, self._settings = cloud, name, settings
        self._folder, self._command = folder, command

    @property
    def unfinished(self) -> bool:
        """True while the newest state is on this machine."""
        return self._folder.exists()

    def make(self, say: Say) -> None:
        """Make the bucket and the key, or what an interrupted run has left out. `settle` must follow."""
        with while_needed("home") as scratch:
            stack = self._open(scratch, on_this_machine(self._folder))
            with told():
                stack.up(**printing(say), **policies(scratch, _POLICIES))

    def unlock(self) -> list[str]:
        """Remove the lock that a killed run has left on this machine; returns the resources that it may have made
        without a record."""
        with while_needed("home") as scratch:
            return unlocked(self._open(scratch, on_this_machine(self._folder)))

    def settle(self, home: StateHome, *, unlock: bool = False) -> None:
        """Move the state into the bucket. With `unlock`, the lock of a move that was killed is removed there."""
        with while_needed("home") as scratch:
            here = self._open(scratch / "here", on_this_machine(self._folder))
            there = self._open(scratch / "there", home)
            with told():
                if unlock:
                    there.cancel()
                there.import_stack(here.export_stack())
        shutil.rmtree(self._folder)

    def remove(self, home: StateHome | None, say: Say) -> None:
        """Delete the bucket with every state in it, and the key.

        Args:
            home: None if an interrupted run has left the state on this machine.
        """
        if home is not None:
            self._fetch(home)
        with while_needed("home") as scratch:
            stack = self._open(scratch, on_this_machine(self._folder), purge=True)
            with told():
                take_away(stack, say)
        shutil.rmtree(self._folder)

    def _fetch(self, home: StateHome) -> None:
        """Copy the state from the bucket to its folder, which appears with all of it."""
        copy = self._folder.with_name(f"{self._folder.name}-copy")
        # A command that was killed may have left a part. No other one works in this folder.
        shutil.rmtree(copy, ignore_errors=True)
        try:
            with while_needed("home") as scratch:
                there = self._open(scratch / "there", home)
                here = self._open(scratch / "here", on_this_machine(copy))
                with told():
                    here.import_stack(there.export_stack())
            copy.rename(self._folder)
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _open(self, folder: Path, home: StateHome, *, purge: bool = False) -> automation.Stack:
        program = partial(cloud_room(self._cloud, "personal").home, self._name, purge=purge)
        return open_stack(
            self._name, PROJECT, program, folder=folder, home=home, command=self._command, config=self._settings
        )
