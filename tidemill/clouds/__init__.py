"""Clouds: where pipelines are. A folder here is a cloud, and its record says what everybody may ask.

How chunks reach machines there is the business of a service (`tidemill.services`).
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from typing import Any

GROUP = "tidemill.clouds"
"""Of entry points, and the package whose folders are the clouds of this repository."""


@dataclass(frozen=True)
class Cloud:
    """The record of a cloud. It imports nothing.

    Attributes:
        name: As a descriptor has it.
        title: As people read it.
        package: Its folder as Python imports it.
        service: The service of queues that name none.
        scheme: Of its stores' URIs.
        login: True if it needs one.
        show: The command that prints an object, with `{uri}` and `{path}` for its place.
        access: The command that shows a stack's owner how a person gets the right to submit.
    """

    name: str
    title: str
    package: str
    service: str
    scheme: str
    login: bool = True
    show: str = "cat {path}"
    access: str = "pulumi stack output | grep submitter"

    def part(self, name: str) -> Any:
        """One of its modules, such as `account` or `checks`, imported when it is first needed."""
        return import_module(f"{self.package}.{name}")


def find(name: str) -> Cloud | None:
    """The record of a cloud of this repository or of an installed package; None where there is none."""
    package = f"{GROUP}.{name}"
    try:
        return getattr(import_module(package), "CLOUD", None)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
    # Imported late: to look for packages takes a while.
    from importlib.metadata import entry_points

    return next((each.load() for each in entry_points(group=GROUP, name=name)), None)


def of_uri(uri: str) -> Cloud | None:
    """The cloud that a store's URI is of; None where there is none."""
    scheme = uri.partition("://")[0]
    return next((cloud for cloud in every() if cloud.scheme == scheme), None)


def every() -> list[Cloud]:
    """The records of this repository's clouds."""
    folders = sorted(each.name for each in pkgutil.iter_modules(__path__) if each.ispkg)
    return [cloud for name in folders if (cloud := find(name))]
