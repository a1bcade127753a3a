"""A regional managed instance group: its target, its VMs, and which VMs its fields let it end.

It is a state machine on the caller's clock: it acts only in ``tick`` and in calls that report what was done to a VM.
The facts are in docs/cloud-facts.md.
"""

from __future__ import annotations

import heapq
import itertools
import random
import string
from collections import Counter, deque
from collections.abc import Callable, Iterable

from localcloud.gcp.compute.capacity import Capacity, Room
from localcloud.gcp.compute.group_fields import GroupFields
from localcloud.gcp.compute.managed import NEVER, Hypervisor, Json, Managed, Timing, seconds_of, stamp

LONGEST_CALL = 1000


class GroupError(Exception):
    """The call names an instance that the group does not have."""


class Group:
    """One group.

    Args:
        fields: Returns the current InstanceGroupManager resource.
        template: Returns the ``properties`` of the template with this URL.
        capacity: Room for VMs.
        hypervisor: Runs the VMs.
        timing: How long the cloud takes.
        chance: Source of everything that is arbitrary in the cloud.
    """

    def __init__(
        self,
        fields: Callable[[], Json],
        template: Callable[[str], Json],
        capacity: Capacity,
        hypervisor: Hypervisor,
        *,
        timing: Timing | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.fields, self._template = GroupFields(fields), template
        self._capacity, self._hypervisor = capacity, hypervisor
        self._timing, self._chance = timing or Timing(), chance or random.Random()
        self.target = 0
        self.errors: deque[Json] = deque(maxlen=200)
        self._vms: dict[str, Managed] = {}
        self._wanted = 0
        self._zones: Counter[str] = Counter()
        self._due: list[tuple[float, int, Managed]] = []
        self._order = itertools.count()
        self._changed = True
        self._seen = ""

    # Requests from outside

    def resize(self, size: int) -> None:
        """Set the target size; ``tick`` carries it out."""
        self.target, self._changed = size, True

    def delete_instances(self, names: Iterable[str], now: float, skip: bool = False) -> None:
        """Delete these VMs and lower the target by their number.

        Args:
            names: Names of managed instances.
            now: The time.
            skip: Pass over those that are not members or are being deleted, instead of refusing the call.

        Raises:
            GroupError: One is not a member or is being deleted.
        """
        chosen = self._chosen(names, skip)
        self.target -= len(chosen)
        for vm in chosen:
            self._remove(vm, now)

    def preempt(self, name: str, now: float) -> None:
        """Preempt a Spot VM: first the notice, then the soft off.

        Raises:
            GroupError: It is not a running Spot VM.
        """
        vm = self._vms.get(name)
        if vm is None or vm.status != "RUNNING" or not vm.spot or vm.terminating:
            raise GroupError(f"{name} is not a running Spot VM")
        vm.preempted = vm.terminating = True
        self._hypervisor.preempt(vm)
        self._wake(vm, now + seconds_of(vm.properties["scheduling"].get("preemptionNoticeDuration")))

    def off(self, name: str, now: float) -> None:
        """Record that the VM is off: its guest powered it off, or a soft off has ended."""
        vm = self._vms.get(name)
        if vm and vm.status in ("RUNNING", "STOPPING"):
            self._ended(vm, now)

    def clear(self) -> None:
        """Delete the group and all its VMs."""
        for vm in list(self._vms.values()):
            self._vacate(vm)
            self._forget(vm)

    # Time

    def next_at(self) -> float:
        """When ``tick`` next has work, as far as is known now."""
        return -NEVER if self._changed else self._due[0][0] if self._due else NEVER

    def tick(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            due, _, vm = heapq.heappop(self._due)
            if vm.due == due and self._vms.get(vm.name) is vm:
                vm.due = NEVER
                self._step(vm, now)
        while self._changed:
            self._changed = False
            self._update(now)
            self._redistribute(now)
            self._converge(now)

    def _wake(self, vm: Managed, at: float) -> None:
        vm.due = at
        if at < NEVER:
            heapq.heappush(self._due, (at, next(self._order), vm))

    def _step(self, vm: Managed, now: float) -> None:
        if vm.leaving and vm.status != "STOPPING":
            self._vacate(vm)
            self._forget(vm)
        elif vm.status == "STOPPING":
            self._ended(vm, now)
        elif vm.status == "PROVISIONING":
            vm.status, vm.action = "RUNNING", "NONE"
            longest = vm.properties.get("scheduling", {}).get("maxRunDuration")
            self._wake(vm, now + seconds_of(longest) if longest else NEVER)
            self._changed = True
            self._hypervisor.boot(vm)
        elif vm.status == "RUNNING":
            vm.terminating = True
            self._shut_down(vm, now)
        elif vm.action in ("CREATING", "RECREATING"):
            self._create(vm, now)

    # Creating

    def _converge(self, now: float) -> None:
        while self._wanted < self.target:
            self._add(now)
        if self._wanted > self.target:
            members = [vm for vm in self._vms.values() if not vm.leaving]
            self._chance.shuffle(members)
            members.sort(key=lambda vm: vm.status == "RUNNING")
            for vm in members[: self._wanted - self.target]:
                self._remove(vm, now)

    def _add(self, now: float, zone: str = "") -> None:
        name = next(
            name
            for name in (f"{self.fields.base}-{self._suffix()}" for _ in itertools.count())
            if name not in self._vms
        )
        vm = Managed(name, zone or self._by_count()[0], self.fields.template, tied=bool(zone))
        self._vms[name] = vm
        self._wanted += 1
        self._zones[vm.zone] += 1
        self._create(vm, now)

    def _suffix(self) -> str:
        return "".join(self._chance.choices(string.ascii_lowercase + string.digits, k=4))

    def _create(self, vm: Managed, now: float) -> None:
        """Try to create the VM; without room, keep retrying."""
        vm.properties = self._template(vm.template)
        refusals: dict[tuple[str, str], None] = {}
        for types in self.fields.ranked(vm.properties):
            for zone in self._candidates(vm):
                for machine_type in types:
                    room = Room(zone, machine_type, vm.spot)
                    refused = self._capacity.refusal(room)
                    if refused is None:
                        self._start(vm, room, now)
                        return
                    refusals[refused] = None
        vm.errors = list(refusals)
        for code, message in vm.errors:
            self.errors.append({
                "error": {"code": code, "message": message},
                "instanceActionDetails": {"action": vm.action, "instance": vm.name, "version": vm.template},
                "timestamp": stamp(now),
            })  # fmt: skip
        self._wake(vm, now + self._timing.retry)

    def _start(self, vm: Managed, room: Room, now: float) -> None:
        self._capacity.take(room)
        self._zones[vm.zone] -= 1
        self._zones[room.zone] += 1
        vm.zone, vm.machine_type, vm.status, vm.errors, vm.since = room.zone, room.machine_type, "PROVISIONING", [], now
        vm.id = self._chance.getrandbits(62)
        vm.preempted = vm.terminating = False
        self._wake(vm, now + self._timing.boot)

    def _candidates(self, vm: Managed) -> list[str]:
        """Zones in which the VM may be created: EVEN waits for the next zone in turn, a repair keeps its own zone."""
        if vm.tied or vm.action == "RECREATING" or self.fields.shape == "EVEN":
            return [vm.zone]
        if self.fields.shape == "ANY_SINGLE_ZONE":
            used = [zone for zone in self.fields.zones if self._zones[zone]]
            return (used or self.fields.zones)[:1]
        return self._by_count()

    # Ending

    def _chosen(self, names: Iterable[str], skip: bool) -> list[Managed]:
        names = list(dict.fromkeys(names))
        if len(names) > LONGEST_CALL:
            raise GroupError(f"at most {LONGEST_CALL} instances a call, not {len(names)}")
        wrong = [name for name in names if name not in self._vms or self._vms[name].leaving]
        if wrong and not skip:
            raise GroupError(f"no members of the group, or being deleted already: {', '.join(wrong)}")
        return [self._vms[name] for name in names if name not in wrong]

    def _remove(self, vm: Managed, now: float) -> None:
        """Delete a VM; the caller adjusts the target size."""
        vm.action, vm.errors, self._changed = "DELETING", [], True
        self._wanted -= 1
        self._zones[vm.zone] -= 1
        if vm.status == "RUNNING":
            self._shut_down(vm, now)
        elif vm.status != "STOPPING":
            self._wake(vm, now)

    def _recreate(self, vm: Managed, now: float, template: str) -> None:
        vm.action, vm.template, self._changed = "RECREATING", template, True
        if vm.status == "RUNNING":
            self._shut_down(vm, now)
        elif vm.status != "STOPPING":
            self._vacate(vm)
            self._wake(vm, now)

    def _shut_down(self, vm: Managed, now: float) -> None:
        vm.status, self._changed = "STOPPING", True
        scheduling = vm.properties.get("scheduling", {})
        grace = self._timing.spot_off if vm.spot else self._timing.standard_off
        if scheduling.get("skipGuestOsShutdown"):
            grace = 0
        self._wake(vm, now + grace)
        self._hypervisor.shut_down(vm, grace)

    def _ended(self, vm: Managed, now: float) -> None:
        """Handle a running VM that went off: an action of the group continues, otherwise the repair policy decides."""
        by_cloud = vm.terminating
        self._vacate(vm)
        self._wake(vm, NEVER)
        self._changed = True
        if vm.leaving:
            self._forget(vm)
        elif vm.action == "RECREATING":
            self._wake(vm, now)
        elif self.fields.repairs:
            self._recreate(vm, now, self.fields.template if self.fields.updates_on_repair else vm.template)
        elif not (by_cloud and vm.properties["scheduling"].get("instanceTerminationAction") == "DELETE"):
            vm.status = "TERMINATED"

    def _vacate(self, vm: Managed) -> None:
        """Record that the VM no longer exists."""
        if vm.status not in ("", "TERMINATED"):
            self._capacity.give(vm.room)
            self._hypervisor.discard(vm)
        vm.status = ""

    def _forget(self, vm: Managed) -> None:
        if not vm.leaving:
            self._wanted -= 1
            self._zones[vm.zone] -= 1
        del self._vms[vm.name]
        self._changed = True

    # Actions on running VMs that the fields allow

    def _update(self, now: float) -> None:
        """A PROACTIVE update replaces VMs of another template; a VM not created yet takes the new one anyway."""
        current, proactive = self.fields.template, self.fields.replaces
        if current == self._seen and not proactive:
            return
        self._seen = current
        old = [vm for vm in self._vms.values() if vm.template != current and not vm.leaving]
        for vm in [vm for vm in old if not vm.status and vm.action == "CREATING"]:
            vm.template = current
        if not proactive:
            return
        old = [vm for vm in old if vm.status and vm.action == "NONE"]
        if not old:
            return
        changing = sum(not vm.settled for vm in self._vms.values() if vm not in old)
        for vm in old[: max(self.fields.at_once(self.target) - changing, 0)]:
            if self.fields.keeps_names:
                self._recreate(vm, now, current)
            else:
                self._remove(vm, now)

    def _redistribute(self, now: float) -> None:
        """PROACTIVE redistribution moves a VM, running or not, to keep zones within one VM of each other."""
        if not self.fields.redistributes:
            return
        least, *_, most = self._by_count() if len(self.fields.zones) > 1 else ("", "")
        if self._zones[most] - self._zones[least] < 2 or any(vm.action != "NONE" for vm in self._vms.values()):
            return
        vm = self._chance.choice([vm for vm in self._vms.values() if vm.zone == most])
        if self.fields.shape == "BALANCED" and self._capacity.refusal(Room(least, vm.machine_type, vm.spot)):
            return
        self._remove(vm, now)
        self._add(now, least)

    def _by_count(self) -> list[str]:
        return sorted(self.fields.zones, key=lambda zone: self._zones[zone])

    def instances(self) -> list[Managed]:
        return list(self._vms.values())

    def get(self, name: str) -> Managed | None:
        return self._vms.get(name)

    def summary(self) -> Json:
        """What InstanceGroupManager shows in addition to its fields."""
        actions = Counter(vm.action for vm in self._vms.values())
        words = {"CREATING": "creating", "RECREATING": "recreating", "DELETING": "deleting", "NONE": "none"}
        current = self.fields.template
        return {
            "targetSize": self.target,
            "currentActions": {word: actions[action] for action, word in words.items()},
            "status": {
                "isStable": not self._changed and set(actions) <= {"NONE"} and self._wanted == self.target,
                "versionTarget": {"isReached": all(vm.template == current for vm in self._vms.values())},
            },
        }
