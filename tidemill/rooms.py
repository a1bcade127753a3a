"""Rooms: folders of modules with fixed names, each of which a record describes. Clouds and services are such.

A record imports nothing, so that everybody may ask it; the modules of its room are imported when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Room:
    """A record.

    Attributes:
        name: As a descriptor has it.
        title: As people read it.
        package: Its folder as Python imports it.
    """

    name: str
    title: str
    package: str

    def part(self, name: str) -> Any:
        """One of its modules, such as `account` or `backend`, imported when it is first needed."""
        return import_module(f"{self.package}.{name}")


def find_record(group: str, name: str, record: str) -> Any:
    """A record by its room in this repository, or by an entry point; None where there is none.

    Args:
        group: The package whose folders are rooms, and the entry points of installed packages: `tidemill.services`.
        name: The room's, as a document or a person wrote it: `batch`.
        record: The record's name in its module.
    """
    if "." in name:  # a module inside a room, or outside all of them
        return None
    package = f"{group}.{name}"
    try:
        return getattr(import_module(package), record, None)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
    # Imported late: to look for packages takes a while.
    from importlib.metadata import entry_points

    return next((each.load() for each in entry_points(group=group, name=name)), None)
