"""A fleet in virtual time: machines, a queue and its late metric, under a policy that decides which machines leave.

The product's own code makes the decisions: `tidemill.worker.machine.idle` says when a machine leaves, and the
reconciler's `decide` says what to remove. The instance group and its autoscaler are localcloud's, based on
docs/cloud-facts.md. Only the duration of items, the Spot reclaims and the immediate delivery of messages are a mere
model.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from components.services.pubsub.reconciler_function import decide
from localcloud.gcp.compute.autoscaler import Autoscaler
from localcloud.gcp.compute.capacity import Capacity, Limit
from localcloud.gcp.compute.group import LONGEST_CALL, Group, GroupError
from localcloud.gcp.compute.managed import Managed, Timing
from tidemill.worker.machine.idle import IdlePolicy

SAMPLE_SECONDS, LATE_SECONDS = 60, 120
"""The time between two samples of the backlog, and the delay until one can be read."""
TICK_SECONDS = 10
RECONCILE_SECONDS = 120
PULL_SECONDS = 30
"""How long an idle worker's pull waits before it returns empty."""
POWER_OFF_SECONDS = 5
MAX_DELIVERIES = 100
"""The limit of our subscription, for every policy; then a message goes to the dead letters."""
CLIENT_LEASE_SECONDS = 3600
"""`FlowControl.max_lease_duration` of the Python client.
Source: https://cloud.google.com/python/docs/reference/pubsub/latest/google.cloud.pubsub_v1.types.FlowControl"""
ACK_DEADLINE_SECONDS = 60
"""How long after a client disappears its message comes back. A client's leases are at least this long."""

GROUP = {
    "name": "fleet",
    "region": "regions/us-central1",
    "instanceTemplate": "template",
    "distributionPolicy": {"targetShape": "BALANCED"},
}
LOSSLESS = {
    **GROUP,
    "updatePolicy": {"type": "OPPORTUNISTIC", "instanceRedistributionType": "NONE"},
    "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
}
TEMPLATE = {
    "machineType": "n2-standard-16",
    "scheduling": {"provisioningModel": "SPOT", "instanceTerminationAction": "STOP"},
}


@dataclass(frozen=True)
class Policy:
    """How machines are taken away, and what a worker does with what it holds."""

    name: str
    fields: dict
    mode: str
    leaves: bool
    """Whether idle workers leave and a reconciler removes them."""
    nacks: bool
    """Whether a worker returns its messages when it must end."""
    lease_seconds: float = math.inf
    """The longest time that a client holds a message."""


OURS = Policy("tidemill", LOSSLESS, "ONLY_SCALE_OUT", leaves=True, nacks=True)
PLAIN = Policy("autoscaler, nack on SIGTERM", GROUP, "ON", leaves=False, nacks=True)
DEFAULTS = Policy(
    "autoscaler, client's defaults", GROUP, "ON", leaves=False, nacks=False, lease_seconds=CLIENT_LEASE_SECONDS
)
POLICIES = (OURS, PLAIN, DEFAULTS)


@dataclass(frozen=True)
class Load:
    """The work of a fleet and its disturbances. Times are in seconds."""

    items: Sequence[float]
    """How long each item takes."""
    machines: int = 1000
    slots: int = 1
    boot: float = 90
    idle: float = 300
    reclaimed_an_hour: float = 0.0
    """Share of the machines that Spot takes back per hour."""
    stockout: tuple[float, float, int] | None = None
    """(share of items done when it begins, duration, most machines available)."""
    warm: int = 0
    reconciler_down: tuple[float, float] | None = None
    """(from, until)."""
    later: Sequence[tuple[float, int]] = ()
    """More items of the same kind: (when, how many of `items` are held back until then)."""
    state: tuple[float, float] | None = None
    """(seconds between two snapshots of an item, seconds to restore one); None: an interrupted item begins anew."""
    seed: int = 1


def longest_first(items: Sequence[float], wrong_by: float, seed: int = 5) -> list[float]:
    """Items by what somebody expects of them, who is wrong by a factor of `wrong_by` either way (one sigma)."""
    chance = random.Random(seed)
    return sorted(items, key=lambda seconds: -seconds * wrong_by ** chance.gauss(0, 1))


def log_normal(count: int, seed: int = 1) -> list[float]:
    """Item times: median 5 minutes, sigma 1.5, clipped to 1 s to 4 h."""
    chance = random.Random(seed)
    median = math.log(300)
    return [min(max(chance.lognormvariate(median, 1.5), 1.0), 14_400.0) for _ in range(count)]


@dataclass
class Result:
    """The outcome of a load under a policy."""

    policy: str
    lost: int = 0
    """Items without an outcome."""
    run_again: int = 0
    """Items that started more than once."""
    finished_again: int = 0
    """Items that finished more than once."""
    wasted_hours: float = 0.0
    """Slot hours of runs that were interrupted or wasted."""
    machine_hours: float = 0.0
    ideal_hours: float = 0.0
    busy_removed: int = 0
    """Busy machines that were ended by neither Spot nor themselves."""
    reclaims: int = 0
    first_item_at: float = math.nan
    done_at: float = math.nan
    zero_at: float = math.nan
    target: int = 0
    """The group's size at the end."""
    most: int = 0
    """Most machines at once."""
    sizes: list[tuple[float, int]] = field(default_factory=list)
    """(when, billed machines), every ten minutes."""

    @property
    def over_ideal(self) -> float:
        """Machine hours beyond what the items themselves need, as a share of it."""
        return self.machine_hours / self.ideal_hours - 1


class Worker:
    """The guest of a VM, which pulls, runs and leaves."""

    __slots__ = ("ending", "idle", "poll", "runs", "vm")

    def __init__(self, vm: Managed, idle: IdlePolicy | None) -> None:
        self.vm, self.idle = vm, idle
        self.runs: dict[int, float] = {}
        """Item to the time when it started."""
        self.ending = False
        self.poll = 0


class World:
    """One simulated run.

    Args:
        policy: How machines are taken away.
        load: The work.
    """

    def __init__(self, policy: Policy, load: Load) -> None:
        self.policy, self.load = policy, load
        self.now = 0.0
        self.result = Result(policy.name, ideal_hours=sum(load.items) / 3600 / load.slots)
        self._chance = random.Random(load.seed)
        self._events: list[tuple[float, int, Callable[..., None], tuple]] = []
        self._order = itertools.count()
        held = sum(count for _, count in load.later)
        self._waiting: deque[int] = deque(range(len(load.items) - held))
        self._published = len(self._waiting)
        self._open = self._published
        """Messages that are not acknowledged."""
        self._done = bytearray(len(load.items))
        self._starts = bytearray(len(load.items))
        self._deliveries = bytearray(len(load.items))
        self._left = len(load.items)
        self._saved: dict[int, float] = {}
        """Item to the seconds of work in its newest snapshot."""
        self._hungry: dict[str, Worker] = {}
        self._workers: dict[str, Worker] = {}
        self._samples: deque[decide.Sample] = deque(maxlen=16)
        self._failing: dict[str, float] = {}
        self._billed = 0
        self._billed_since = 0.0
        self._dry_until = math.inf if load.stockout else 0.0
        self.capacity = Capacity()
        self.group = Group(
            lambda: policy.fields,
            lambda _: TEMPLATE,
            self.capacity,
            self,
            timing=Timing(boot=load.boot),
            chance=self._chance,
        )
        scaling = {
            "mode": policy.mode,
            "minNumReplicas": load.warm,
            "maxNumReplicas": load.machines,
            "customMetricUtilizations": [{"singleInstanceAssignment": load.slots}],
        }
        self.autoscaler = Autoscaler(lambda: scaling, self.group, self._metric)
        self._warm: tuple[str, ...] = ()

    # ---- time ---------------------------------------------------------------------------------------------------

    def run(self, longest: float = 4_000_000.0) -> Result:
        """Run until no items and no machines are left."""
        self._after(0, self._sample)
        self._after(0, self._tick)
        if self.policy.leaves:
            self._after(RECONCILE_SECONDS, self._reconcile)
        for at, count in self.load.later:
            self._after(at, self._publish, count)
        while self._events and self.now < longest and not self._over():
            self.now, _, act, arguments = heapq.heappop(self._events)
            act(*arguments)
        self._bill(0)
        self.result.lost = len(self._done) - sum(self._done)
        self.result.run_again = sum(count > 1 for count in self._starts)
        self.result.target, self.result.zero_at = self.group.target, self.now
        return self.result

    def _after(self, seconds: float, act: Callable[..., None], *arguments: object) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._order), act, arguments))

    def _over(self) -> bool:
        if self._left:
            return False
        if math.isnan(self.result.done_at):
            self.result.done_at = self.now
        there = len(self._workers) > self.load.warm or self.group.target > self.load.warm
        return not there or self.now - self.result.done_at > 86_400

    def _tick(self) -> None:
        self._stockout()
        self.autoscaler.tick(self.now)
        if self.group.next_at() <= self.now:
            self.group.tick(self.now)
        if self.now % 600 < TICK_SECONDS:
            self.result.sizes.append((self.now, self._billed))
        self._after(TICK_SECONDS, self._tick)

    def _stockout(self) -> None:
        if not self.load.stockout or not self._dry_until:
            return
        share, seconds, most = self.load.stockout
        if self._dry_until == math.inf and 1 - self._left / len(self._done) >= share:
            self._dry_until = self.now + seconds
            self.capacity.limits.append(Limit(most))
        elif self.now >= self._dry_until:
            self._dry_until = 0.0
            self.capacity.limits.clear()

    # ---- the queue and its metric ---------------------------------------------------------------------------------

    def _publish(self, count: int) -> None:
        first = self._published
        self._published += count
        self._open += count
        for item in range(first, first + count):
            self._offer(item)

    def _offer(self, item: int) -> None:
        """Offer a message to workers, for the first time or again."""
        if self._deliveries[item] >= MAX_DELIVERIES:
            self._left -= 1
            self._open -= 1
            return
        self._waiting.append(item)
        if self._hungry:
            self._feed(next(iter(self._hungry.values())))

    def _sample(self) -> None:
        self._samples.append(decide.Sample(self.now, self._open))
        self._after(SAMPLE_SECONDS, self._sample)

    def _visible(self) -> Iterator[decide.Sample]:
        return (sample for sample in self._samples if sample.at <= self.now - LATE_SECONDS)

    def _metric(self, _: dict, now: float) -> float | None:
        return max(self._visible(), key=lambda sample: sample.at, default=decide.Sample(0, 0)).value

    # ---- workers --------------------------------------------------------------------------------------------------

    def _feed(self, worker: Worker) -> None:
        """Fill a worker's free slots; without work, it waits in a pull."""
        while self._waiting and len(worker.runs) < self.load.slots:
            item = self._waiting.popleft()
            if self._done[item]:
                continue
            self._deliveries[item] += 1
            self._start(worker, item)
        if len(worker.runs) >= self.load.slots:
            self._hungry.pop(worker.vm.name, None)
        elif worker.vm.name not in self._hungry:
            self._hungry[worker.vm.name] = worker
            worker.poll += 1
            self._after(PULL_SECONDS, self._empty, worker, worker.poll)

    def _start(self, worker: Worker, item: int) -> None:
        if math.isnan(self.result.first_item_at):
            self.result.first_item_at = self.now
        if worker.idle:
            worker.idle.busy()
        worker.runs[item] = self.now
        self._starts[item] = min(self._starts[item] + 1, 255)
        seconds = self.load.items[item]
        if self.load.state and item in self._saved:
            seconds += self.load.state[1] - self._saved[item]
        self._after(seconds, self._finished, worker, item, self.now)
        if seconds > self.policy.lease_seconds:
            self._after(self.policy.lease_seconds, self._lapsed, worker, item, self.now)

    def _finished(self, worker: Worker, item: int, started: float) -> None:
        if worker.runs.get(item) != started:
            return
        del worker.runs[item]
        if self._done[item]:
            self.result.finished_again += 1
            self.result.wasted_hours += (self.now - started) / 3600
        else:
            self._done[item] = 1
            self._left -= 1
            self._open -= 1
        if worker.idle:
            worker.idle.busy()
        self._feed(worker)

    def _lapsed(self, worker: Worker, item: int, started: float) -> None:
        """Redeliver a message that the client stops holding. The run continues; its late acknowledgement counts."""
        if worker.runs.get(item) == started and not self._done[item]:
            self._offer(item)

    def _empty(self, worker: Worker, poll: int) -> None:
        """Handle a pull that returned empty."""
        if self._hungry.get(worker.vm.name) is not worker or worker.poll != poll:
            return
        if worker.idle and not worker.runs:
            worker.idle.pulled(True)
            if worker.idle.leave() and worker.vm.name not in self._warm:
                del self._hungry[worker.vm.name]
                worker.ending = True
                self._after(POWER_OFF_SECONDS, self.group.off, worker.vm.name, self.now + POWER_OFF_SECONDS)
                return
        if worker.idle or not self._left:
            self._after(PULL_SECONDS, self._empty, worker, poll)

    def _interrupt(self, worker: Worker, gives_back: bool) -> None:
        """End a worker's programs. Its messages come back at once, or when its leases expire."""
        self._hungry.pop(worker.vm.name, None)
        for item, started in worker.runs.items():
            self.result.wasted_hours += self._unsaved(item, self.now - started) / 3600
            if self._done[item]:
                continue
            if gives_back:
                self._offer(item)
            elif self.now - started < self.policy.lease_seconds:
                self._after(ACK_DEADLINE_SECONDS, self._offer, item)
        worker.runs.clear()

    def _unsaved(self, item: int, seconds: float) -> float:
        """How much of the work of so many seconds is lost; what the newest snapshot holds is kept."""
        if self.load.state is None:
            return seconds
        every, restore = self.load.state
        worked = max(0.0, seconds - (restore if item in self._saved else 0.0))
        if kept := worked - worked % every:
            self._saved[item] = self._saved.get(item, 0.0) + kept
        return seconds - kept

    # ---- what the group does to machines ----------------------------------------------------------------------------

    def boot(self, vm: Managed) -> None:
        """Boot a machine and its worker."""
        self._bill(1)
        clock: Callable[[], float] = lambda: self.now  # noqa: E731
        worker = Worker(vm, IdlePolicy(self.load.idle, clock) if self.policy.leaves else None)
        self._workers[vm.name] = worker
        if self.load.reclaimed_an_hour:
            rate = -math.log(1 - self.load.reclaimed_an_hour) / 3600
            self._after(self._chance.expovariate(rate), self._preempt, vm, worker)
        self._feed(worker)

    def _preempt(self, vm: Managed, worker: Worker) -> None:
        if self._workers.get(vm.name) is worker and not worker.ending:
            try:
                self.group.preempt(vm.name, self.now)
            except GroupError:
                return
            self.result.reclaims += 1

    def preempt(self, vm: Managed) -> None:
        """Give notice. A worker that drains returns everything at once."""
        worker = self._workers.get(vm.name)
        if worker:
            worker.ending = True
            if self.policy.leaves:
                self._interrupt(worker, gives_back=True)

    def shut_down(self, vm: Managed, seconds: float) -> None:
        """Send SIGTERM."""
        worker = self._workers.get(vm.name)
        if worker is None:
            return
        if worker.runs and not worker.ending:
            self.result.busy_removed += 1
        worker.ending = True
        self._interrupt(worker, self.policy.nacks)
        self._after(POWER_OFF_SECONDS, self.group.off, vm.name, self.now + POWER_OFF_SECONDS)

    def discard(self, vm: Managed) -> None:
        """Remove an ended machine."""
        worker = self._workers.pop(vm.name, None)
        if worker:
            self._interrupt(worker, gives_back=False)
            self._bill(-1)

    def _bill(self, change: int) -> None:
        self.result.machine_hours += self._billed * (self.now - self._billed_since) / 3600
        self._billed += change
        self._billed_since = self.now
        self.result.most = max(self.result.most, self._billed)

    # ---- the reconciler -------------------------------------------------------------------------------------------

    def _reconcile(self) -> None:
        self._after(RECONCILE_SECONDS, self._reconcile)
        down = self.load.reconciler_down
        if down and down[0] <= self.now < down[1]:
            return
        machines = [self._seen(vm) for vm in self.group.instances()]
        group = decide.Group(
            "spot", machines, self.group.target, self.load.slots, self.load.warm, mode=self.policy.mode
        )
        queue = decide.QueueState("cpu", [group], list(self._visible()))
        self._warm = decide.warm(queue)
        for decision in decide.decide(queue, self.now):
            for names in _batches(decision.machines, LONGEST_CALL):
                self.group.delete_instances(names, self.now, skip=True)

    def _seen(self, vm: Managed) -> decide.Machine:
        if not vm.errors:
            self._failing.pop(vm.name, None)
            return decide.Machine(vm.name, vm.status, vm.action)
        since = self._failing.setdefault(vm.name, self.now)
        dry = any(decide.is_stockout(code) for code, _ in vm.errors)
        return decide.Machine(vm.name, vm.status, vm.action, stockout=dry, failing_since=since)


def _batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))
