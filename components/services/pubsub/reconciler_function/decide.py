"""The reconciler's decisions: pure functions of its input, with the clock as an argument.

The reconciler keeps no state between runs: history comes from the backlog's samples and the times of errors. So a
reconciler that was down for an hour decides like any other. Standard library only: this file runs in the cloud function
and in the simulation.

It never removes a machine whose worker is alive. Powered-off machines cannot get work. A machine that was absent at the
read takes longer to boot than the function waits before it removes it (`FRESH_READ_SECONDS`), so new work never goes to
a machine that is being removed.

Example:
    ```python
    spot = Group("spot", target=2, per_machine=1, machines=[Machine("a", "TERMINATED"), Machine("b", "RUNNING")])
    empty = [Sample(at, 0) for at in (580, 520, 460, 400, 340)]
    decide(QueueState("cpu", [spot], empty), now=600)  # [Decision("remove", "spot", ("a",), "powered off")]
    ```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

WINDOW_SECONDS = 300
"""How long a backlog must have held before a decision. The metric is sampled every minute."""
SAMPLES = 4
"""How many samples the window needs; fewer are a gap, and a gap is not an empty queue."""
LATE_SECONDS = 360
"""Maximum age of the newest sample: a minute between samples, two until they are readable, then doubled."""
STOCKOUT_SECONDS = 900
"""How long a market counts as dry after its last stockout error."""
FAILING_SECONDS = 1200
"""How long the group may fail to create a machine before it must choose another zone for it."""
BROKEN_SECONDS = 900
"""How long a machine that could not run its worker keeps its place: this limits a broken fleet to four tries per
hour."""
SILENT_SECONDS = 1800
"""How long a worker may be silent before its machine counts as frozen: six times its heartbeat interval."""
FRESH_READ_SECONDS = 20
"""How long after the read an absent machine may be removed: none boots and gets work in that time."""

OFF = frozenset({"TERMINATED", "STOPPED"})
_ABSENT = frozenset({"", "PROVISIONING"})
_GOING = frozenset({"STOPPING", "PENDING_STOP", "DEPROVISIONING", "SUSPENDING", "SUSPENDED"})
_REMOVED = frozenset({"DELETING", "ABANDONING"})
_AT_REST = frozenset({"NONE", "VERIFYING"})
_STOCKOUTS = ("RESOURCE_POOL_EXHAUSTED", "STOCKOUT")

State = Literal["off", "absent", "up", "leaving"]


def is_stockout(code: str) -> bool:
    """True if an error code says that a zone is out of such machines.

    Source: https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability
    (ZONE_RESOURCE_POOL_EXHAUSTED, ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS) and the autoscaler's
    ZONE_RESOURCE_STOCKOUT and REGION_RESOURCE_STOCKOUT.
    """
    return any(word in code.upper() for word in _STOCKOUTS)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of a group as `listManagedInstances` shows it; times in epoch seconds."""

    name: str
    """Its name, or any key by which the caller removes it."""
    status: str = ""
    """`instanceStatus`; empty while the instance does not exist."""
    action: str = "NONE"
    """`currentAction`."""
    stockout: bool = False
    """True if the last attempt to create it failed because of a stockout."""
    failing_since: float | None = None
    """Time of the first known failed attempt to create it."""
    broken_at: float | None = None
    """When it reported that it cannot run its worker."""
    alive_at: float | None = None
    """When its worker last reported that it is alive; None if it never did, like a worker of an old image."""

    @property
    def state(self) -> State:
        """Powered off for good, not there yet, up (or perhaps up), or already leaving."""
        if self.action in _REMOVED or self.status in _GOING:
            return "leaving"
        if self.status in OFF:
            return "off" if self.action in _AT_REST else "absent"
        return "absent" if self.status in _ABSENT else "up"

    def silent(self, now: float) -> bool:
        """True if the machine runs, but its worker has been silent for so long that it must be frozen."""
        return self.state == "up" and self.alive_at is not None and now - self.alive_at >= SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class Group:
    """A managed instance group: one rung of a queue."""

    market: str
    """``spot`` or ``on_demand``."""
    machines: Sequence[Machine] | None
    """All machines in the group's list; None if the list could not be read."""
    target: int = 0
    """Its target size, including powered-off machines."""
    per_machine: float = 1
    """Messages per machine: the autoscaler's `singleInstanceAssignment`."""
    minimum: int = 0
    """Machines that stay without work."""
    mode: str = "ONLY_SCALE_OUT"
    """The autoscaler's mode; a rung is open unless it is ``OFF``."""
    stockout_at: float | None = None
    """Time of this group's newest stockout error."""

    @property
    def open(self) -> bool:
        """True if the group's autoscaler adds machines."""
        return self.mode != "OFF"

    def of(self, state: State) -> list[Machine]:
        """Its machines in a state."""
        return [machine for machine in self.machines or () if machine.state == state]

    def dry(self, now: float) -> bool:
        """True if a recent error, or the last attempt to create a machine, says that the market has run dry."""
        lately = self.stockout_at is not None and now - self.stockout_at <= STOCKOUT_SECONDS
        return lately or any(machine.stockout for machine in self.of("absent"))


@dataclass(frozen=True, slots=True)
class Sample:
    """The subscription's unacknowledged messages, including leased ones, at a time."""

    at: float
    value: float


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue: its first rung, optionally a second one that only the reconciler opens, and its backlog."""

    name: str
    groups: Sequence[Group]
    backlog: Sequence[Sample] | None
    """Samples in any order, possibly older than `WINDOW_SECONDS`; None if they could not be read."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One action and its reason. Decisions are carried out in order."""

    kind: Literal["remove", "open", "close"]
    market: str
    machines: tuple[str, ...]
    """Names, for ``remove``."""
    why: str


def decide(queue: QueueState, now: float) -> list[Decision]:
    """The actions for a queue; an empty list if there are none.

    Args:
        queue: The queue as read. Read the backlog after the machines: then it is at least as new as the one for which
            the autoscaler started them.
        now: Epoch seconds, by the clock of the samples.
    """
    if any(group.machines is None for group in queue.groups):
        return []
    window = _window(queue.backlog, now)
    rung = _rung(queue.groups, window, now) if window else []
    closed = any(decision.kind == "close" for decision in rung)
    decisions = list(rung)
    for number, group in enumerate(queue.groups):
        is_open = group.open and not (number and closed)
        silent = [each.name for each in group.of("up") if each.silent(now)]
        decisions += _removal(group, silent, "silent for half an hour")
        decisions += _powered_off(group, window, now) + (_never_there(group, is_open, window, now) if window else [])
    return decisions


def backlog(queue: QueueState, now: float) -> float | None:
    """The newest sample; None if the backlog is unknown."""
    window = _window(queue.backlog, now)
    return window[0].value if window else None


def waiting(queue: QueueState, now: float) -> bool:
    """True if there was work at every sample of the window."""
    window = _window(queue.backlog, now)
    return bool(window) and all(sample.value > 0 for sample in window)


def warm(queue: QueueState) -> tuple[str, ...]:
    """Names of the machines that stay although they are idle: the first `minimum` of the first rung that are up.

    An idle worker stops unless it is named here. So it does not depend on which machines of a large fleet finish last,
    and no stopped machine is restarted.
    """
    group = queue.groups[0]
    return tuple(sorted(machine.name for machine in group.of("up"))[: group.minimum])


def _window(samples: Sequence[Sample] | None, now: float) -> list[Sample]:
    """The samples of the last `WINDOW_SECONDS`, newest first; empty if they are late or too few."""
    if not samples:
        return []
    newest = max(sample.at for sample in samples)
    if now - newest > LATE_SECONDS:
        return []
    inside = [sample for sample in samples if newest - sample.at <= WINDOW_SECONDS]
    return sorted(inside, key=lambda sample: -sample.at) if len(inside) >= SAMPLES else []


def _powered_off(group: Group, window: list[Sample], now: float) -> list[Decision]:
    """Remove machines that are off, even if the backlog is unknown: they count in the target size, so no new machine
    starts in their place before."""
    wanted = any(sample.value > 0 for sample in window)
    names = [machine.name for machine in group.of("off") if not (wanted and _held(machine, now))]
    return _removal(group, names, "powered off")


def _held(machine: Machine, now: float) -> bool:
    return machine.broken_at is not None and now - machine.broken_at < BROKEN_SECONDS


def _never_there(group: Group, is_open: bool, window: list[Sample], now: float) -> list[Decision]:
    absent = group.of("absent")
    # Machines that have failed longest go first: they are the least likely to start.
    absent.sort(key=lambda machine: (machine.failing_since or math.inf, machine.name))
    surplus = max(0, len(group.of("up")) + len(absent) - _needed(group, window)) if is_open else len(absent)
    why = "wanted for nothing" if is_open else "wanted by a closed rung"
    idle = _removal(group, [machine.name for machine in absent[:surplus]], why)
    failing = [
        machine.name
        for machine in absent[surplus:]
        if machine.failing_since is not None and now - machine.failing_since >= FAILING_SECONDS
    ]
    return idle + _removal(group, failing, "cannot be created where it was placed")


def _needed(group: Group, window: list[Sample]) -> int:
    """Machines for the largest backlog of the window, which is also the autoscaler's maximum."""
    return max(group.minimum, math.ceil(max(sample.value for sample in window) / group.per_machine))


def _removal(group: Group, names: Sequence[str], why: str) -> list[Decision]:
    return [Decision("remove", group.market, tuple(names), why)] if names else []


def _rung(groups: Sequence[Group], window: list[Sample], now: float) -> list[Decision]:
    """Decide to open or close the second rung."""
    if len(groups) < 2:
        return []
    first, second = groups
    served = len(first.of("up")) * first.per_machine
    dry = first.dry(now)
    if not second.open:
        everywhere = served + len(second.of("up")) * second.per_machine
        if dry and first.of("absent") and min(sample.value for sample in window) > everywhere:
            return [Decision("open", second.market, (), f"{first.market} is in stockout and work is waiting")]
        return []
    if max(sample.value for sample in window) <= served:
        return [Decision("close", second.market, (), f"{first.market} machines are enough for what is left")]
    if not dry:
        return [Decision("close", second.market, (), f"{first.market} machines can be had again")]
    return []
