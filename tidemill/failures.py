"""Groups failures of the same mistake: the message of a failed item, and the id of its group.

An id depends on nothing but the reason, the exit code and the message without its numbers and the item's own names. It
stays the same from one run of a job to the next, and from one version of Tidemill to the next: people paste it into
`tidemill retry --group` and into tickets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from tidemill.errors import CallerError

if TYPE_CHECKING:
    from tidemill.ledger import Outcome

MESSAGE_CHARACTERS = 300
ID_DIGITS = 10
"""Two of 10,000 groups share an id in one job of 20,000."""
_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Failure)\b")
_VARYING = re.compile(r"\b0x[0-9a-fA-F]+\b|\b[0-9a-f]{8,}\b|\d+")
_WORKER = re.compile(r"/workers/[0-9a-f]+-[0-9a-f]+(-\d+)?/")
"""The folder of a worker, in whose paths a program finds its input and its output."""
_OUTPUT = re.compile(r"/out/[a-z][a-z0-9-]*-[0-9a-f]{8}/\d+/[^/\s]+/")
"""Where an attempt's output goes: the names of its job, item and lease."""
_SAID_BY_US = {
    "timeout": "over its time limit",
    "memory": "over its memory limit",
    "poison": "its worker died each time it ran there alone",
}


class GroupKey(NamedTuple):
    """The common part of a group's failed items."""

    reason: str | None
    exit_code: int | None
    line: str
    """The message without numbers and without the items' own names."""

    @property
    def id(self) -> str:
        key = json.dumps([self.reason, self.exit_code, self.line], separators=(",", ":"))
        return hashlib.sha256(key.encode()).hexdigest()[:ID_DIGITS]


def group_key(outcome: Outcome) -> GroupKey:
    """The group of a failed outcome."""
    return GroupKey(outcome.reason, outcome.exit_code, generalised(telling_line(outcome), outcome.uri))


def telling_line(outcome: Outcome) -> str:
    """The line of an item's error that tells most: the exception, else the last line, else what we know."""
    lines = [line.strip() for line in (outcome.error or "").splitlines() if line.strip()]
    raised = [line for line in lines if _RAISED.match(line)]
    message = (raised or lines or [""])[-1]
    if not message:
        code = outcome.exit_code
        ended = "said nothing" if code is None else f"said nothing and ended with {code}"
        message = _SAID_BY_US.get(outcome.reason or "", ended)
    return message[:MESSAGE_CHARACTERS]


def generalised(message: str, uri: str) -> str:
    """A message without the item's own names and without numbers, so that equal mistakes are equal."""
    message = _OUTPUT.sub("/out/#/", _WORKER.sub("/workers/#-#/", message))
    for own in sorted({uri, unquote(uri), *(part for part in uri.rpartition("/")[2:] if len(part) > 3)}, key=len)[::-1]:
        if len(own) > 3:
            message = message.replace(own, "{item}")
        elif own and not own.isdecimal():
            # A short name is also part of other words.
            message = re.sub(rf"(?<!\w){re.escape(own)}(?!\w)", "{item}", message)
    return _VARYING.sub("#", message)


def items_of_group(job: str, outcomes: Iterable[Outcome], group: str) -> list[int]:
    """Indexes of the failed items of a group.

    Raises:
        CallerError: No failed item of the job belongs to the group.
    """
    indexes = [one.index for one in outcomes if one.status == "failed" and group_key(one).id == group]
    if not indexes:
        allowed = f"the id of a group that `tidemill failures {job}` shows"
        raise CallerError.about("group", group, allowed, "Items that succeed in a retry leave their group.")
    return indexes
