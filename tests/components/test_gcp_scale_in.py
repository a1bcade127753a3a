"""Scale-in of a small fleet in virtual time: the reconciler's own decisions on a group and autoscaler of a few lines.

In this model a machine stops when its worker has been idle, boots in 90 seconds, and the backlog is sampled each minute
and seen two minutes late. That Compute Engine behaves so is assumed; localcloud and the benchmark `fleet` do more of
it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import pytest

from components.services.pubsub.reconciler_function import decide
from components.services.pubsub.reconciler_function.decide import Group, Machine, QueueState, Sample
from tests.mutants import reconciler

TICK = 10
BOOT = 90
IDLE = 300
PERIOD = 120
LATE = 120


@dataclass
class Vm:
    name: str
    booted_at: float = math.inf
    busy_until: float = 0.0
    idle_since: float = 0.0
    status: str = ""


@dataclass
class Fleet:
    """A queue of chunks and machines of one slot; the market has `places` machines and never more."""

    chunks: deque[float]
    places: int
    most: int
    machines: dict[str, Vm] = field(default_factory=dict)
    samples: deque[Sample] = field(default_factory=deque)
    now: float = 0.0
    made: int = 0
    done: int = 0
    came: int = 0
    running_removed: int = 0

    def run(self, until: float, down: tuple[float, float] = (-1, -1)) -> Fleet:
        while self.now < until:
            self.now += TICK
            self._work()
            if self.now % 60 == 0:
                self.samples.append(Sample(self.now, self._backlog()))
                self._autoscale()
            if self.now % PERIOD == 0 and not down[0] <= self.now < down[1]:
                self._reconcile()
        return self

    @property
    def target(self) -> int:
        return len(self.machines)

    def _backlog(self) -> int:
        return len(self.chunks) + sum(vm.busy_until > self.now for vm in self.machines.values())

    def _visible(self) -> list[Sample]:
        return [sample for sample in self.samples if sample.at <= self.now - LATE][-30:]

    def _autoscale(self) -> None:
        """ONLY_SCALE_OUT: up to the largest backlog of the last minute, and never down."""
        wanted = max((sample.value for sample in self._visible()[-2:]), default=0)
        while self.target < min(wanted, self.most):
            self.made += 1
            self.machines[f"vm-{self.made:04}"] = Vm(f"vm-{self.made:04}")

    def _work(self) -> None:
        for vm in self.machines.values():
            if not vm.status and self.came < self.places:
                self.came += 1
                vm.status, vm.booted_at, vm.idle_since = "RUNNING", self.now + BOOT, self.now + BOOT
            if vm.status != "RUNNING" or self.now < max(vm.booted_at, vm.busy_until):
                continue
            if vm.busy_until:
                self.done += 1
                vm.busy_until, vm.idle_since = 0.0, self.now
            if self.chunks:
                vm.busy_until = self.now + self.chunks.popleft()
            elif self.now - vm.idle_since >= IDLE:
                vm.status = "TERMINATED"

    def _reconcile(self) -> None:
        shown = [
            Machine(vm.name, vm.status, "NONE" if vm.status else "CREATING", stockout=not vm.status)
            for vm in self.machines.values()
        ]
        group = Group("spot", shown, self.target)
        for decision in decide.decide(QueueState("cpu", [group], self._visible()), self.now):
            for name in decision.machines:
                vm = self.machines.pop(name)
                self.running_removed += vm.status == "RUNNING"


def drained(places: int, down: tuple[float, float] = (-1, -1)) -> Fleet:
    """400 chunks of 4 to 8 minutes, a fleet of at most 50 machines, four hours."""
    chunks = deque(240.0 + 60 * (number % 5) for number in range(400))
    return Fleet(chunks, places=places, most=50).run(4 * 3600, down)


@pytest.mark.parametrize("places", [12, 1000])
def test_a_fleet_goes_back_to_zero_and_nothing_that_runs_is_removed(places):
    fleet = drained(places)
    assert (fleet.done, fleet.running_removed, fleet.target) == (400, 0, 0)


def test_a_stockout_that_leaves_machines_wanted_for_ever(monkeypatch: pytest.MonkeyPatch):
    """At 12 of 50; without the safeguard the other 38 stay wanted."""
    assert drained(12).target == 0
    reconciler.never_there_stays(monkeypatch)
    assert drained(12).target == 38


def test_a_reconciler_that_was_down_for_an_hour():
    fleet = drained(1000, down=(3600, 7200))
    assert (fleet.done, fleet.running_removed, fleet.target) == (400, 0, 0)
    # While it is down, machines still leave and are still wanted.
    chunks = deque([300.0] * 20)
    assert Fleet(chunks, places=1000, most=50).run(3 * 3600, down=(0, 10**9)).target == 20


def test_a_job_after_all_machines_have_powered_off_starts_within_a_period_and_a_boot():
    """The target size still counts them: no machine replaces them until they are removed."""
    fleet = Fleet(deque([300.0] * 10), places=1000, most=50)
    while not (fleet.machines and all(vm.status == "TERMINATED" for vm in fleet.machines.values())):
        fleet.run(fleet.now + TICK)
    fleet.chunks.extend([60.0] * 10)
    submitted, before = fleet.now, fleet.done
    while fleet.done == before:
        fleet.run(fleet.now + TICK)
        assert fleet.now < submitted + 3600
    started = fleet.now - 60
    metric = 60 + LATE + 60  # a sample, its delay, and the autoscaler's next look
    assert started - submitted <= metric + PERIOD + BOOT + 2 * TICK


def test_capacity_shrink_kills_busy_workers(monkeypatch: pytest.MonkeyPatch):
    """Buildkite 1399; the mutant removes machines like the plain autoscaler, without asking which are busy."""
    assert drained(1000).running_removed == 0
    reconciler.running_is_idle(monkeypatch)
    assert drained(1000).running_removed > 0
