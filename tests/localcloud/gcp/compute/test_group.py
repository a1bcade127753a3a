"""A managed instance group on virtual time. Not proved: Google's own behaviour; docs/cloud-facts.md has the sources."""

from __future__ import annotations

import random
from typing import Any

import pytest

from localcloud.gcp.compute.capacity import QUOTA, STOCKOUT, Capacity, Limit
from localcloud.gcp.compute.group import Group, GroupError
from localcloud.gcp.compute.managed import Managed, listed

ZONES = ("a", "b", "c")
URL = "https://www.googleapis.com/compute/v1/projects/p/global/instanceTemplates"


class Guests:
    """A hypervisor that records its requests."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.grace: dict[str, float] = {}

    def boot(self, vm: Managed) -> None:
        self.calls.append(("boot", vm.name))

    def preempt(self, vm: Managed) -> None:
        self.calls.append(("preempt", vm.name))

    def shut_down(self, vm: Managed, seconds: float) -> None:
        self.calls.append(("shut_down", vm.name))
        self.grace[vm.name] = seconds

    def discard(self, vm: Managed) -> None:
        self.calls.append(("discard", vm.name))

    def names(self, call: str) -> list[str]:
        return [name for kind, name in self.calls if kind == call]


class Made:
    """A group, its hypervisor, and a clock."""

    def __init__(self, **fields: Any) -> None:
        self.scheduling: dict[str, Any] = {"provisioningModel": "SPOT", "instanceTerminationAction": "STOP"}
        self.fields: dict[str, Any] = {
            "name": "g",
            "baseInstanceName": "vm",
            "region": "https://www.googleapis.com/compute/v1/projects/p/regions/r1",
            "versions": [{"instanceTemplate": f"{URL}/one"}],
            "distributionPolicy": {"targetShape": "BALANCED", "zones": [{"zone": f"zones/r1-{z}"} for z in ZONES]},
            "updatePolicy": {"type": "OPPORTUNISTIC", "instanceRedistributionType": "NONE"},
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
        } | fields
        self.capacity, self.guests = Capacity(), Guests()
        self.now = 0.0
        self.group = Group(
            lambda: self.fields, self._template, self.capacity, self.guests, chance=random.Random(1)
        )  # fmt: skip

    def _template(self, url: str) -> dict[str, Any]:
        return {"machineType": "n2-standard-16", "scheduling": self.scheduling, "of": url}

    def run(self, seconds: float) -> None:
        """Let time pass, event by event, like a simulation."""
        end = self.now + seconds
        while (at := max(self.group.next_at(), self.now)) <= end:
            self.now = at
            self.group.tick(self.now)
        self.now = end

    def up(self, size: int) -> list[Managed]:
        self.group.resize(size)
        self.run(30)
        return self.group.instances()

    def having(self, **wanted: Any) -> list[Managed]:
        found = self.group.instances()
        return [vm for vm in found if all(getattr(vm, name) == value for name, value in wanted.items())]


def test_vms_are_created_boot_and_run() -> None:
    made = Made()
    made.group.resize(5)
    made.run(0)
    assert [(vm.status, vm.action) for vm in made.group.instances()] == [("PROVISIONING", "CREATING")] * 5
    assert not made.group.summary()["status"]["isStable"]
    made.run(20)
    assert [(vm.status, vm.action) for vm in made.group.instances()] == [("RUNNING", "NONE")] * 5
    assert sorted(made.guests.names("boot")) == sorted(vm.name for vm in made.group.instances())
    assert made.group.summary() == {
        "targetSize": 5,
        "currentActions": {"creating": 0, "recreating": 0, "deleting": 0, "none": 5},
        "status": {"isStable": True, "versionTarget": {"isReached": True}},
    }
    assert sorted(sum(vm.zone == f"r1-{zone}" for vm in made.group.instances()) for zone in ZONES) == [1, 2, 2]


def test_a_stockout_leaves_machines_wanted_for_ever() -> None:
    made = Made()
    made.capacity.limits = [Limit(12, spot=True)]
    made.up(50)
    assert (len(made.having(status="RUNNING")), len(made.having(status="", action="CREATING"))) == (12, 38)
    for vm in made.having(status=""):
        seen = listed(vm, "p")
        assert seen["lastAttempt"]["errors"]["errors"][0]["code"] == STOCKOUT
        assert "instanceStatus" not in seen
        assert seen["instance"].endswith(f"/zones/{vm.zone}/instances/{vm.name}")
    made.run(3600)
    assert made.group.target == 50
    assert len(made.group.errors) == made.group.errors.maxlen
    made.capacity.limits = []
    made.run(made.group._timing.retry + 30)
    assert len(made.having(status="RUNNING")) == 50
    assert not any(vm.errors for vm in made.group.instances())


def test_a_quota_has_its_own_error() -> None:
    made = Made()
    made.capacity.limits = [Limit(1, QUOTA)]
    made.up(2)
    assert [error["error"]["code"] for error in made.group.errors] == [QUOTA]


def test_room_of_a_vm_that_is_off_is_free_again() -> None:
    made = Made()
    made.capacity.limits = [Limit(1)]
    first, second = made.up(2)
    waiting = first if first.status == "" else second
    made.group.off((second if waiting is first else first).name, made.now)
    made.run(90)
    assert waiting.status == "RUNNING"


def test_delete_instances_lowers_the_target_whatever_the_vm_does() -> None:
    made = Made()
    made.capacity.limits = [Limit(2)]
    made.up(3)
    (waiting,) = made.having(status="")
    running, stopped = made.having(status="RUNNING")
    made.group.off(stopped.name, made.now)
    made.group.delete_instances([waiting.name, running.name, stopped.name], made.now)
    assert made.group.target == 0
    made.run(0)
    assert made.group.instances() == [running]
    assert (running.action, running.status, made.guests.grace[running.name]) == ("DELETING", "STOPPING", 30)
    made.run(30)
    assert made.group.instances() == []
    assert made.group.summary()["status"]["isStable"]


def test_delete_instances_refuses_or_passes_over_what_is_no_member() -> None:
    made = Made()
    first, second = made.up(2)
    for wrong in (["nobody", first.name], [f"vm-{n}" for n in range(1001)]):
        with pytest.raises(GroupError):
            made.group.delete_instances(wrong, made.now)
    assert made.group.target == 2
    made.group.delete_instances(["nobody", first.name, first.name], made.now, skip=True)
    made.group.delete_instances([first.name], made.now, skip=True)
    assert made.group.target == 1
    with pytest.raises(GroupError):
        made.group.delete_instances([first.name], made.now)
    made.run(60)
    assert made.group.instances() == [second]


def test_a_guest_that_goes_quickly_is_not_waited_for() -> None:
    made = Made()
    (vm,) = made.up(1)
    made.group.delete_instances([vm.name], made.now)
    made.group.off(vm.name, made.now)
    assert made.group.instances() == []


@pytest.mark.parametrize("size", [0, 3])
def test_resizing_down_takes_those_that_do_not_run_first_and_then_anyone(size: int) -> None:
    made = Made()
    made.capacity.limits = [Limit(6)]
    made.up(8)
    before = made.having(status="RUNNING")
    made.group.resize(size)
    made.run(60)
    left = made.group.instances()
    assert len(left) == size
    assert set(left) <= set(before)


def test_who_goes_is_arbitrary() -> None:
    gone = set()
    for seed in range(20):
        made = Made()
        made.group._chance = random.Random(seed)
        before = made.up(4)
        made.group.resize(3)
        made.run(60)
        gone.add(next(n for n, vm in enumerate(before) if vm not in made.group.instances()))
    assert gone == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("failure", "by", "status", "action", "target"),
    [
        ("DO_NOTHING", "itself", "TERMINATED", "NONE", 1),
        ("DO_NOTHING", "STOP", "TERMINATED", "NONE", 1),
        ("DO_NOTHING", "DELETE", "", "NONE", 1),
        ("REPAIR", "itself", "RUNNING", "NONE", 1),
        ("REPAIR", "STOP", "RUNNING", "NONE", 1),
        ("REPAIR", "DELETE", "RUNNING", "NONE", 1),
    ],
)
def test_what_follows_when_a_vm_goes_off(failure: str, by: str, status: str, action: str, target: int) -> None:
    made = Made(instanceLifecyclePolicy={"defaultActionOnFailure": failure})
    (vm,) = made.up(1)
    name = vm.name
    if by == "itself":
        made.group.off(name, made.now)
    else:
        made.scheduling["instanceTerminationAction"] = by
        made.group.preempt(name, made.now)
        assert made.guests.names("preempt") == [name]
        made.run(29)
        assert vm.status == "STOPPING"
        made.run(1)
    made.run(3600)
    (left,) = made.group.instances()
    assert (left.name, left.status, left.action, made.group.target) == (name, status, action, target)
    assert made.guests.names("boot") == [name] * (2 if failure == "REPAIR" else 1)
    assert not left.preempted or failure == "DO_NOTHING"


def test_repair_is_the_default_and_keeps_the_old_template() -> None:
    made = Made(instanceLifecyclePolicy={})
    (vm,) = made.up(1)
    made.fields["versions"] = [{"instanceTemplate": f"{URL}/two"}]
    made.group.off(vm.name, made.now)
    assert vm.action == "RECREATING"
    made.run(60)
    assert (vm.status, vm.template) == ("RUNNING", f"{URL}/one")


def test_a_repair_can_be_told_to_take_the_new_template() -> None:
    made = Made(instanceLifecyclePolicy={"defaultActionOnFailure": "REPAIR", "forceUpdateOnRepair": "YES"})
    (vm,) = made.up(1)
    made.fields["versions"] = [{"instanceTemplate": f"{URL}/two"}]
    made.group.off(vm.name, made.now)
    made.run(60)
    assert (vm.status, vm.template) == ("RUNNING", f"{URL}/two")


def test_a_notice_longer_than_nothing_delays_the_soft_off() -> None:
    made = Made()
    made.scheduling["preemptionNoticeDuration"] = {"seconds": "120"}
    (vm,) = made.up(1)
    made.group.preempt(vm.name, made.now)
    made.run(119)
    assert (vm.status, vm.preempted) == ("RUNNING", True)
    made.run(1)
    assert vm.status == "STOPPING"


def test_only_running_spot_vms_are_preempted() -> None:
    made = Made()
    (vm,) = made.up(1)
    made.group.preempt(vm.name, made.now)
    for name in (vm.name, "nobody"):
        with pytest.raises(GroupError):
            made.group.preempt(name, made.now)
    made = Made()
    made.scheduling["provisioningModel"] = "STANDARD"
    (vm,) = made.up(1)
    with pytest.raises(GroupError):
        made.group.preempt(vm.name, made.now)
    made.group.delete_instances([vm.name], made.now)
    assert made.guests.grace[vm.name] == 120


def test_the_longest_run_ends_a_machine_busy_or_not() -> None:
    made = Made()
    made.scheduling["maxRunDuration"] = {"seconds": "3600"}
    (vm,) = made.up(1)
    made.run(3600 - 30 + 20 - 1)
    assert vm.status == "RUNNING"
    made.run(32)
    assert (vm.status, vm.preempted) == ("TERMINATED", False)


@pytest.mark.parametrize(
    ("policy", "replaced"),
    [
        ({"type": "OPPORTUNISTIC"}, 0),
        ({}, 0),
        ({"type": "PROACTIVE"}, 10),
        ({"type": "PROACTIVE", "replacementMethod": "RECREATE"}, 10),
        ({"type": "PROACTIVE", "mostDisruptiveAllowedAction": "RESTART"}, 0),
        ({"type": "PROACTIVE", "mostDisruptiveAllowedAction": "NONE"}, 0),
    ],
)
def test_a_new_template_kills_where_the_fields_let_it(policy: dict[str, str], replaced: int) -> None:
    made = Made(updatePolicy={"instanceRedistributionType": "NONE", **policy})
    made.up(10)
    made.fields["versions"] = [{"instanceTemplate": f"{URL}/two"}]
    made.group.resize(11)
    made.run(0)
    assert len(made.having(status="RUNNING")) >= 10 - 6, "at most one surge and one unavailable a zone"
    made.run(3600)
    assert len(made.guests.names("shut_down")) == replaced
    assert len(made.having(template=f"{URL}/two", status="RUNNING")) == replaced + 1
    assert made.group.summary()["status"]["versionTarget"]["isReached"] is (replaced == 10)


def test_what_waits_for_room_takes_the_new_template() -> None:
    made = Made()
    made.capacity.limits = [Limit(0)]
    made.up(2)
    made.fields["versions"] = [{"instanceTemplate": f"{URL}/two"}]
    made.capacity.limits = []
    made.group.resize(3)
    made.run(120)
    assert len(made.having(template=f"{URL}/two", status="RUNNING")) == 3


def emptied_zone(made: Made) -> None:
    """Nine machines, with those in zone a deleted."""
    made.up(9)
    made.group.delete_instances([vm.name for vm in made.having(zone="r1-a")], made.now)
    made.run(600)


@pytest.mark.parametrize(
    ("redistribution", "shape", "moved"),
    [
        ("PROACTIVE", "EVEN", 2), ("PROACTIVE", "BALANCED", 2), ("PROACTIVE", "ANY", 0),
        ("NONE", "EVEN", 0), ("NONE", "BALANCED", 0),
    ],
)  # fmt: skip
def test_redistribution_kills_where_the_fields_let_it(redistribution: str, shape: str, moved: int) -> None:
    made = Made(updatePolicy={"type": "OPPORTUNISTIC", "instanceRedistributionType": redistribution})
    made.fields["distributionPolicy"]["targetShape"] = shape
    emptied_zone(made)
    assert (made.group.target, len(made.having(status="RUNNING"))) == (6, 6)
    assert len(made.guests.names("shut_down")) - 3 == moved
    assert len(made.having(zone="r1-a")) == moved


def test_balanced_redistribution_does_not_move_into_a_stockout() -> None:
    made = Made(updatePolicy={"type": "OPPORTUNISTIC"})
    made.up(9)
    made.capacity.limits = [Limit(0, zone="r1-a")]
    made.group.delete_instances([vm.name for vm in made.having(zone="r1-a")], made.now)
    made.run(600)
    assert len(made.having(status="RUNNING")) == 6


@pytest.mark.parametrize(("shape", "running"), [("EVEN", 4), ("BALANCED", 6), ("ANY", 6), ("ANY_SINGLE_ZONE", 0)])
def test_a_stockout_in_one_zone(shape: str, running: int) -> None:
    made = Made()
    made.fields["distributionPolicy"]["targetShape"] = shape
    made.capacity.limits = [Limit(0, zone="r1-a")]
    made.up(6)
    made.run(600)
    assert len(made.having(status="RUNNING")) == running


def test_machine_types_are_tried_by_rank() -> None:
    selections = {
        "second": {"rank": 2, "machineTypes": ["n2d-standard-16", "c3-standard-16"]},
        "first": {"rank": 1, "machineTypes": ["n2-standard-16"]},
    }
    made = Made(instanceFlexibilityPolicy={"instanceSelections": selections})
    made.capacity.limits = [Limit(2, machine_type="n2-"), Limit(1, machine_type="n2d-")]
    types = sorted(vm.machine_type for vm in made.up(4))
    assert types == ["c3-standard-16", "n2-standard-16", "n2-standard-16", "n2d-standard-16"]
    assert listed(made.group.instances()[0], "p")["propertiesFromFlexibilityPolicy"]["machineType"] in types


def test_a_deleted_group_leaves_nothing() -> None:
    made = Made()
    made.capacity.limits = [Limit(3)]
    made.up(5)
    made.group.clear()
    assert made.group.instances() == []
    assert sorted(made.guests.names("discard")) == sorted(made.guests.names("boot"))
    made.capacity.limits = [Limit(1)]
    assert made.capacity.refusal(Managed("x", "r1-a", "").room) is None
