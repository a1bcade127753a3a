"""Clouds: where pipelines are. A folder here is a cloud, and its record says what everybody may ask.

How chunks reach machines there is the business of a service (`tidemill.services`).
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

from tidemill.rooms import Room, find_record

GROUP = "tidemill.clouds"
"""Of entry points, and the package whose folders are the clouds of this repository."""


@dataclass(frozen=True, kw_only=True)
class Cloud(Room):
    """The record of a cloud.

    Attributes:
        service: The service of queues that name none.
        scheme: Of its stores' URIs.
        login: True if it needs one.
        show: The command that prints an object, with `{uri}` and `{path}` for its place.
        access: The command that shows a stack's owner how a person gets the right to submit.
        sender_errors: The command that prints what went wrong in calls of the sender, with `{group}`, `{region}` and
            `{account}` of its pipeline.
        region_form: A regular expression of its regions' names; empty where it has no regions.
        account_variable: The variable that names the account to ask, where no pipeline does; empty where the login
            tells.
        scored_types: Machine types below which it scores a request for Spot machines low; 0 where it scores none.
    """

    service: str
    scheme: str
    login: bool = True
    show: str = "cat {path}"
    access: str = "pulumi stack output | grep submitter"
    sender_errors: str = ""
    region_form: str = ""
    account_variable: str = ""
    scored_types: int = 0


def find(name: str) -> Cloud | None:
    """The record of a cloud of this repository or of an installed package; None where there is none."""
    return find_record(GROUP, name, "CLOUD")


def of_uri(uri: str) -> Cloud | None:
    """The cloud that a store's URI is of; None where there is none."""
    scheme = uri.partition("://")[0]
    return next((cloud for cloud in every() if cloud.scheme == scheme), None)


def every() -> list[Cloud]:
    """The records of this repository's clouds."""
    folders = sorted(each.name for each in pkgutil.iter_modules(__path__) if each.ispkg)
    return [cloud for name in folders if (cloud := find(name))]
