"""One arithmetic for every caller, on generated stacks. This cannot prove that a cloud reserves no
more memory than the table says, or that it bills what the price table says."""

from __future__ import annotations

import json
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from components import machines, money
from components.config import ConfigError, StackConfig, parse
from components.services.batch import describe as batch
from components.services.pubsub import describe as pubsub
from ops.review.build import build
from ops.review.document import parse as read_preview
from ops.review.money import total
from policy.rules.common import fleets
from policy.rules.common.caps import hourly
from tests.components.stacks import run_program
from tests.ops.review_steps import TODAY, document
from tests.policy.judging import resources_of
from tidemill.capacity import WORKER_MIB, most_machines, slots, usable_memory_mib
from tidemill.client.estimate.estimate import at_once
from tidemill.client.plan.place import find_place
from tidemill.descriptor import Descriptor, Machine
from tidemill.machine import Capacity
from tidemill.request import JobRequest
from tidemill.services import of_cloud

SLOW = settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.generate])
"""A program runs under mocks for each example: a failing one is reported as it is found."""
IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"
REGIONS = {"aws": ["us-west-2", "us-east-1"], "gcp": ["us-central1"]}
TYPES = {
    cloud: [each for rows in machines.families(cloud).values() for each in rows if each.architecture == "x86_64"]
    for cloud in ("aws", "gcp")
}


@st.composite
def queues(draw: st.DrawFn, cloud: str) -> dict[str, Any]:
    """A queue around one machine type, whose item takes one of its CPUs to all of it, to the last MiB."""
    anchor = draw(st.sampled_from(TYPES[cloud]))
    alike = sorted({each.family for each in TYPES[cloud] if bool(each.gpus) == bool(anchor.gpus) and not each.attach})
    others = [] if anchor.attach else draw(st.lists(st.sampled_from(alike), max_size=2))
    low, high = (draw(st.integers(1, anchor.cpus)), draw(st.integers(anchor.cpus, 416)))
    share = draw(st.integers(1, anchor.cpus))
    item = {"cpus": draw(st.integers(1, max(1, anchor.cpus // share))), "gpus": min(anchor.gpus, 1)}
    item["memory_mib"] = max(64, usable_memory_mib(of_cloud(cloud), anchor) // share + draw(st.integers(-2, 1)))
    markets = draw(st.sampled_from([["spot"], ["on_demand"], ["spot", "on_demand"]]))
    return {
        "images": {"default": IMAGE},
        "item": item,
        "machines": {
            "families": list(dict.fromkeys([anchor.family, *others])),
            "cpus": {"min": low, "max": high} if cloud == "aws" else anchor.cpus,
        },
        "capacity": [{"market": each, "max_cpus": draw(st.integers(anchor.cpus, 2000))} for each in markets],
    }


def stacks(cloud: str, most: int) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(["a", "b", "c"]), queues(cloud), min_size=1, max_size=most)
    return named.map(lambda found: {"team": "vision", "environment": "dev", "cloud": cloud, "queues": found})


def accepted(stack: dict[str, Any]) -> StackConfig:
    try:
        return parse(stack)
    except ConfigError:
        return reject()


def described(config: StackConfig) -> Descriptor:
    """The descriptor, as far as a submit looks at it."""
    names: Any = SimpleNamespace(
        arn="q", markets={}, topic="t", subscription="s", dead_letters="d", job_definitions=defaultdict(str)
    )
    found = {
        name: batch.described(queue, names)
        if config.cloud == "aws"
        else pubsub.described(queue, names, queue.images["default"])
        for name, queue in config.queues.items()
    }
    place = {"region": "r", "account": "a", "store": "s3://s"}
    return Descriptor.model_validate(
        {**config.model_dump(include={"team", "environment", "cloud"}), **place, "queues": found}
    )


def places(descriptor: Descriptor) -> list[Any]:
    return [find_place(descriptor, JobRequest(None, (), queue=name)) for name in descriptor.queues]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_what_the_configuration_accepts_submit_accepts_and_a_machine_holds(cloud: str) -> None:
    @settings(max_examples=150, deadline=None)
    @given(stacks(cloud, 1))
    def check(stack: dict[str, Any]) -> None:
        for place in places(described(accepted(stack))):
            low, high = at_once(cloud, place)
            assert 1 <= low <= high
            for machine in place.queue.machines:
                there = Capacity(
                    machine.cpus, usable_memory_mib(of_cloud(cloud), machine) + WORKER_MIB, ("0",) * machine.gpus
                )
                assert there.slots(place.resources, WORKER_MIB) == max(
                    1, slots(of_cloud(cloud), machine, place.resources)
                )

    check()


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_note_policy_and_review_agree_to_the_cent(cloud: str) -> None:
    @settings(SLOW)
    @given(stacks(cloud, 3), st.sampled_from(REGIONS[cloud]))
    def check(stack: dict[str, Any], region: str) -> None:
        config = accepted(stack)
        made = run_program({f"tidemill:{key}": value for key, value in stack.items()} | PLACE[cloud])
        noted = money.estimate(config, region).machines
        found = resources_of(made)
        planned = fleets.environments if cloud == "aws" else fleets.groups
        capped = [hourly(cloud, region, each).high for each in planned(found)]
        assert sum(usd or 0 for usd in capped) == pytest.approx(noted.usd_high, abs=0.005)
        preview = document(*map(step_of, made.resources), cloud=cloud, region=region)
        read = read_preview(json.dumps(preview, default=str), "preview")
        reviewed = total(each.usd_hour_after for each in build([read], TODAY).stacks[0].fleets)
        assert reviewed is not None
        assert (reviewed.low or 0, reviewed.high or 0) == pytest.approx((noted.usd_low, noted.usd_high), abs=0.005)
        if cloud == "gcp":
            first = [each.inputs["autoscalingPolicy"] for each in made.of("compute.RegionAutoscaler")]
            most = {each["maxReplicas"] * each["metrics"][0]["singleInstanceAssignment"] for each in first}
            assert {at_once(cloud, place)[0] for place in places(described(config))} <= most

    check()


PLACE = {"aws": {"aws:region": "us-west-2"}, "gcp": {"gcp:project": "vision-project", "gcp:region": "us-central1"}}


def step_of(made: Any) -> dict[str, Any]:
    state = {"inputs": made.inputs, "protect": False, "propertyDependencies": made.options["property_dependencies"]}
    return {"op": "create", "urn": made.urn, "newState": state}


@pytest.mark.parametrize(
    ("cloud", "families", "cpus", "item", "count"),
    [
        ("aws", ["c7i"], {"min": 4, "max": 8}, {"cpus": 8, "memory_mib": 15_000}, 1),
        ("gcp", ["n2"], 16, {"cpus": 16, "memory_mib": 62_000}, 1),
        ("gcp", ["n2"], 16, {"cpus": 4, "memory_mib": 15_000}, 4),
    ],
)
def test_items_that_one_formula_accepted_and_another_refused(cloud, families, cpus, item, count):
    queue = {"images": {"default": IMAGE}, "machines": {"families": families, "cpus": cpus}, "item": item}
    stack = {"team": "vision", "environment": "dev", "cloud": cloud, "queues": {"cpu": queue}}
    (place,) = places(described(parse(stack)))
    assert max(slots(of_cloud(cloud), machine, place.resources) for machine in place.queue.machines) == count


@pytest.mark.parametrize(
    ("cloud", "max_cpus", "cpus", "machines"),
    [
        ("aws", 20, 8, 3),
        ("aws", 16, 8, 2),
        ("aws", 20, 32, 1),
        ("gcp", 20, 8, 2),
        ("gcp", 4, 8, 1),
        ("local", 64, 8, 1),
    ],
)
def test_batch_may_pass_a_limit_by_one_machine_and_a_group_does_not(cloud, max_cpus, cpus, machines):
    assert most_machines(of_cloud(cloud), max_cpus, cpus) == machines


def test_more_memory_is_kept_back_than_a_machine_was_seen_to_lack():
    """AWS's own example of a container instance, and the kernel's 64 bytes per page of 4 KiB."""
    m4_large = Machine(type="m4.large", cpus=2, memory_mib=8192)
    assert usable_memory_mib(of_cloud("aws"), m4_large) < 8_373_026_816 // 2**20 - 32
    percent, _ = of_cloud("gcp").kept_back
    assert percent / 100 > 64 / 4096
