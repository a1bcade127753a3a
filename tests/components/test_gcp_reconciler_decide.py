"""The reconciler's decisions on hand-made views of a fleet. That Compute shows a fleet like this is assumed."""

import ast
import sys
from pathlib import Path

import pytest

from components.services.pubsub.reconciler_function import decide as module
from components.services.pubsub.reconciler_function.decide import (
    Decision,
    Group,
    Machine,
    QueueState,
    Sample,
    decide,
    is_stockout,
    warm,
)

NOW = 1_000_000.0


def samples(*values: float, age: float = 150, every: float = 60) -> list[Sample]:
    """Newest first; the newest is `age` seconds old."""
    return [Sample(NOW - age - number * every, value) for number, value in enumerate(values)]


EMPTY = samples(0, 0, 0, 0, 0)
BUSY = samples(9000, 9000, 9000, 9000, 9000)


def off(name: str = "off", **more) -> Machine:
    return Machine(name, "TERMINATED", **more)


def running(name: str = "run", action: str = "NONE") -> Machine:
    return Machine(name, "RUNNING", action)


def wanted(name: str = "wanted", **more) -> Machine:
    return Machine(name, "", "CREATING", **more)


def spot(*machines: Machine, **more) -> Group:
    return Group("spot", list(machines), target=len(machines), **more)


def rung(*machines: Machine, is_open: bool = False, **more) -> Group:
    return Group("on_demand", list(machines), len(machines), mode="ONLY_SCALE_OUT" if is_open else "OFF", **more)


def decisions(*groups: Group, backlog: list[Sample] | None = EMPTY) -> list[Decision]:
    return decide(QueueState("cpu", groups, backlog), NOW)


def removed(*groups: Group, backlog: list[Sample] | None = EMPTY) -> list[str]:
    return [name for decision in decisions(*groups, backlog=backlog) for name in decision.machines]


# ---- powered off --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backlog", [EMPTY, BUSY, None, [], samples(0)], ids=["empty", "busy", "unread", "none", "gap"])
@pytest.mark.parametrize("status", ["TERMINATED", "STOPPED"])
def test_what_is_powered_off_goes_whatever_is_known_of_the_backlog(status, backlog):
    group = spot(Machine("gone", status), running())
    assert decisions(group, backlog=backlog) == [Decision("remove", "spot", ("gone",), "powered off")]


def test_what_is_powered_off_goes_from_a_closed_rung_too():
    assert removed(spot(), rung(off("a"))) == ["a"]


@pytest.mark.parametrize("action", ["DELETING", "ABANDONING"])
def test_what_is_on_its_way_out_is_left_alone(action):
    group = spot(off("a", action=action), Machine("b", "", action), Machine("c", "RUNNING", action))
    assert decisions(group) == []


@pytest.mark.parametrize("status", ["STOPPING", "PENDING_STOP", "DEPROVISIONING", "SUSPENDING", "SUSPENDED"])
def test_a_machine_that_is_not_off_yet_is_waited_for(status):
    assert decisions(spot(Machine("a", status))) == []


@pytest.mark.parametrize("action", ["STARTING", "RESTARTING", "RECREATING", "RESUMING"])
def test_a_powered_off_machine_that_the_group_starts_again_stays_while_there_is_work(action):
    group = spot(off("a", action=action))
    assert decisions(group, backlog=BUSY) == []
    assert removed(group, backlog=EMPTY) == ["a"]


def test_a_machine_that_could_not_run_its_worker_holds_its_place_for_a_while():
    """Otherwise a fleet that cannot work is remade continuously: each machine bills until its worker has failed."""
    early, late = off("early", broken_at=NOW - 899), off("late", broken_at=NOW - 901)
    assert removed(spot(early, late), backlog=BUSY) == ["late"]
    assert removed(spot(early, late), backlog=EMPTY) == ["early", "late"]
    assert removed(spot(early, late), backlog=None) == ["early", "late"]


# ---- running machines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backlog", [EMPTY, BUSY, None], ids=["empty", "busy", "unread"])
@pytest.mark.parametrize("status", ["RUNNING", "STAGING", "REPAIRING", "A_STATUS_OF_NEXT_YEAR"])
@pytest.mark.parametrize("action", ["NONE", "VERIFYING", "REFRESHING", "RESTARTING", "RECREATING", "CREATING"])
def test_no_machine_that_is_up_or_may_be_is_ever_removed(status, action, backlog):
    machine = Machine("a", status, action, stockout=True, failing_since=0, broken_at=0)
    assert removed(spot(machine), rung(machine), backlog=backlog) == []
    assert removed(spot(machine), rung(machine, is_open=True), backlog=backlog) == []


def test_idle_check_races_with_new_work():
    """github-aws-runners 5085: work that arrives between the look and the removal must not meet a removed machine.

    Only machines that are off, or not even there, are ever named: neither can have taken the work.
    """
    fleet = spot(running("idle"), off("off"), wanted("wanted"), Machine("booting", "STAGING", "CREATING"))
    assert removed(fleet, backlog=EMPTY) == ["off", "wanted"]
    by_name = {machine.name: machine for machine in fleet.machines or ()}
    assert {by_name[name].state for name in removed(fleet, backlog=EMPTY)} == {"off", "absent"}


def test_every_bound_is_more_than_zero():
    """Buildkite 1000: no bound here is zero, and an age of zero seconds is young."""
    bounds = [value for name, value in vars(module).items() if name.endswith(("_SECONDS", "SAMPLES"))]
    assert len(bounds) == 8
    assert min(bounds) > 0
    assert removed(spot(off(broken_at=NOW)), backlog=BUSY) == []
    assert removed(spot(wanted(failing_since=NOW)), backlog=BUSY) == []


# ---- wanted, but never there --------------------------------------------------------------------------------------


def test_a_stockout_that_leaves_machines_wanted_for_ever():
    """120 of 500 came up; when the queue has drained, nothing stays wanted."""
    came = [off(f"came-{n}") for n in range(120)]
    never = [wanted(f"never-{n}", stockout=True) for n in range(380)]
    assert len(removed(spot(*came, *never), backlog=EMPTY)) == 500
    assert len(removed(spot(*came, *never), backlog=BUSY)) == 120


@pytest.mark.parametrize(
    "backlog",
    [
        None,
        [],
        samples(0, 0, 0),
        samples(0, 0, 0, 0, every=120),
        samples(0, 0, 0, 0, 0, age=361),
        samples(0, 0, 0, 0, 3),
    ],
    ids=["unread", "none", "few", "sparse", "late", "not long enough"],
)
def test_what_is_wanted_stays_until_the_queue_is_known_to_have_been_empty(backlog):
    assert decisions(spot(wanted(), Machine("b", "PROVISIONING", "CREATING")), backlog=backlog) == []


def test_a_group_keeps_no_more_wanted_machines_than_the_backlog_asks_for():
    """The tail of a job: 12 machines of 4 hold 40 messages, and 38 more have been wanted since the stockout."""
    up = [running(f"up-{n}") for n in range(8)]
    never = [wanted(f"never-{n:02}", failing_since=NOW - n) for n in range(42)]
    gone = removed(spot(*up, *never, per_machine=4), backlog=samples(39, 40, 40, 40, 40))
    assert len(gone) == 40
    assert {"never-00", "never-01"}.isdisjoint(gone)  # those that have failed for the shortest time
    assert removed(spot(*up, *never, per_machine=4), backlog=samples(39, 40, 40, 40, 200)) == []


def test_a_surplus_is_rounded_in_favour_of_the_work():
    assert removed(spot(wanted("a"), wanted("b"), per_machine=16), backlog=samples(17, 17, 17, 17)) == []
    assert removed(spot(wanted("a"), wanted("b"), per_machine=16), backlog=samples(16, 16, 16, 16)) == ["a"]


def test_machines_that_stay_warm_are_waited_for():
    group = spot(wanted("a"), wanted("b"), running("c"), minimum=2)
    assert removed(group) == ["a"]


def test_what_cannot_be_created_for_long_has_to_find_another_place():
    late, early = wanted("late", failing_since=NOW - 1200), wanted("early", failing_since=NOW - 1199)
    assert decisions(spot(late, early), backlog=BUSY) == [
        Decision("remove", "spot", ("late",), "cannot be created where it was placed")
    ]
    assert decisions(spot(late, early), backlog=None) == []


# ---- the second rung ----------------------------------------------------------------------------------------------

DRY = (wanted("a", stockout=True), wanted("b", stockout=True))


def kinds(*groups: Group, backlog: list[Sample] | None) -> list[str]:
    return [f"{decision.kind} {decision.market}" for decision in decisions(*groups, backlog=backlog)]


def test_spot_that_never_escalates():
    """Nextflow 7396."""
    assert kinds(spot(running(), *DRY), rung(), backlog=BUSY) == ["open on_demand"]
    assert kinds(spot(running(), wanted(), stockout_at=NOW - 900), rung(), backlog=BUSY) == ["open on_demand"]


@pytest.mark.parametrize(
    ("first", "backlog"),
    [
        (spot(running(), wanted()), BUSY),
        (spot(running(), wanted(), stockout_at=NOW - 901), BUSY),
        (spot(running(), stockout_at=NOW), BUSY),
        (spot(running("a"), running("b"), *DRY), samples(2, 2, 2, 2, 2)),
        (spot(running(), *DRY), samples(9, 9, 9, 9, 1)),
        (spot(*DRY), None),
        (spot(*DRY), samples(9, 9, 9, 9, age=400)),
    ],
    ids=["no stockout", "old stockout", "all up", "enough up for the tail", "since a moment", "unread", "late"],
)
def test_the_rung_stays_closed(first, backlog):
    assert "open on_demand" not in kinds(first, rung(), backlog=backlog)


def test_machines_of_a_rung_that_was_closed_count_while_they_are_there():
    """Otherwise it opens for work that they already hold."""
    assert kinds(spot(*DRY), rung(running("x"), running("y")), backlog=samples(2, 2, 2, 2)) == []


def test_an_open_rung_stays_open_while_spot_is_dry():
    assert kinds(spot(running(), *DRY), rung(is_open=True), backlog=BUSY) == []
    assert kinds(spot(running(), wanted(), stockout_at=NOW - 899), rung(is_open=True), backlog=BUSY) == []


def test_the_rung_closes_when_spot_places_again():
    assert kinds(spot(running(), wanted(), stockout_at=NOW - 901), rung(is_open=True), backlog=BUSY) == [
        "close on_demand"
    ]


def test_the_rung_closes_when_the_work_is_done_or_in_hands():
    dry = spot(running(), *DRY)
    assert kinds(dry, rung(is_open=True), backlog=EMPTY)[0] == "close on_demand"
    assert kinds(dry, rung(is_open=True), backlog=samples(1, 1, 1, 1))[0] == "close on_demand"


def test_closing_comes_first_and_takes_what_is_still_wanted_with_it():
    """Otherwise its autoscaler would want them again between the two."""
    group = rung(running("r"), wanted("w"), off("o"), is_open=True)
    assert decisions(spot(), group, backlog=EMPTY) == [
        Decision("close", "on_demand", (), "spot machines are enough for what is left"),
        Decision("remove", "on_demand", ("o",), "powered off"),
        Decision("remove", "on_demand", ("w",), "wanted by a closed rung"),
    ]


def test_a_closed_rung_wants_nothing_even_with_a_backlog():
    assert removed(spot(running()), rung(wanted("w"), running("r")), backlog=BUSY) == ["w"]


def test_an_unknown_backlog_leaves_the_rung_as_it_is():
    assert decisions(spot(*DRY), rung(is_open=True), backlog=None) == []


# ---- the rest -----------------------------------------------------------------------------------------------------


def test_machines_that_cannot_be_read_change_nothing():
    unread = Group("spot", None)
    assert decisions(unread, backlog=EMPTY) == []
    assert decisions(spot(off()), Group("on_demand", None, mode="OFF"), backlog=EMPTY) == []


def test_an_hour_without_the_reconciler_is_made_good_in_one_run():
    fleet = [off(f"off-{n}") for n in range(2500)] + [wanted(f"w-{n}") for n in range(300)] + [running("r")]
    assert len(removed(spot(*fleet))) == 2800


def test_the_newest_sample_is_the_backlog():
    queue = QueueState("cpu", [spot()], list(reversed(samples(7, 8, 9, 10))))
    assert module.backlog(queue, NOW) == 7
    assert module.backlog(QueueState("cpu", [spot()], None), NOW) is None
    assert module.backlog(queue, NOW + 300) is None


def test_machines_that_stay_warm_are_the_first_that_are_up():
    group = spot(off("a"), running("d"), running("c"), wanted("b"), running("e"), minimum=2)
    assert warm(QueueState("cpu", [group, rung(running("aa"))], EMPTY)) == ("c", "d")
    assert warm(QueueState("cpu", [spot(running("a"))], EMPTY)) == ()


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", True),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", True),
        ("REGION_RESOURCE_STOCKOUT", True),
        ("QUOTA_EXCEEDED", False),
        ("RESOURCE_NOT_FOUND", False),
        ("", False),
    ],
)
def test_what_counts_as_a_stockout(code, says):
    assert is_stockout(code) is says


def test_the_decisions_need_nothing_but_the_standard_library():
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names
