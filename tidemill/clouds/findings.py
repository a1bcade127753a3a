"""Checks that `tidemill doctor` makes of a login and of a service's queues, and their findings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from tidemill import clouds
from tidemill.clouds import Cloud
from tidemill.descriptor import Descriptor, Image, Queue
from tidemill.errors import CallerError

UP = "pulumi up"
Verdict = Literal["ok", "warning", "fault", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: `login`, `descriptor`, `store`, `queue cpu`, `image cpu/default`, `quota`, `schedule nightly`,
            `arrivals tiles`, `fleet`.
        verdict: `warning`: works, but less than was asked for. `unknown`: it cannot be seen with this login.
        detail: What was found, in one line.
        command: One command that fixes it, or shows what must be fixed; empty where nothing is wrong.
        owner: Whether the stack's owner runs it.
    """

    check: str
    verdict: Verdict
    detail: str
    command: str = ""
    owner: bool = False


def absent(check: str, image: Image) -> Finding:
    """The finding of an image that is not where machines pull it. A mirror that is a cache may still fetch it."""
    if image.mirrored:
        detail = f"{image.ref} is not in the mirror yet. If it is a cache, the first pull fetches it"
        return Finding(check, "warning", detail, f"docker pull {image.ref}", owner=True)
    return Finding(check, "fault", f"{image.ref} is not in the registry", f"docker push {image.ref}", owner=True)


class Checks(Protocol):
    """Checks of a service's queues, with the caller's own login."""

    def pipeline(self, descriptor: Descriptor) -> Iterator[Finding]:
        """Queues, images and whatever else a job needs of the cloud; the descriptor has the service's queues alone."""
        ...

    def image(self, check: str, queue: Queue, image: Image) -> Finding:
        """Check that an image of a queue exists and fits the queue's machines, as far as the login sees."""
        ...


def login_fault(error: CallerError) -> Finding:
    return Finding("login", "fault", str(error), error.command)


def access_command(uri: str) -> str:
    """The command that shows the stack's owner how a person gets the right to submit."""
    cloud = clouds.of_uri(uri)
    return (cloud or Cloud).access
