"""What reports advise. What this cannot prove: that the next job's items are like those of this one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.client_fakes import queue
from tidemill import capacity
from tidemill.client.report.advice import Experience, advise
from tidemill.client.report.model import SlotUse
from tidemill.client.report.totals import Measure
from tidemill.descriptor import Machine, Resources
from tidemill.request import with_flags
from tidemill.sketch import Sketch

MACHINE = Machine(type="c7i.4xlarge", cpus=16, memory_mib=32768)
RANDOM = random.Random(11)


def measured(values: list[float], asked: float | None = None) -> Any:
    measure = Measure()
    measure.add({"h": Sketch(values).packed(), "sum": sum(values), "max": max(values)})
    return measure.distribution(asked)


def job(**changes: Any) -> Experience:
    """A job without anything to improve: 1,000 items that use what they ask for, in chunks of four minutes."""
    asked = changes.pop("asked", Resources(cpus=1, memory_mib=2048, gpus=0))
    memory = changes.pop("memory", [RANDOM.uniform(1300, 1700) for _ in range(1000)])
    cores = changes.pop("cores", [RANDOM.uniform(0.8, 1.0) for _ in range(1000)])
    wall = changes.pop("wall", [RANDOM.uniform(8, 12) for _ in range(1000)])
    chunks = changes.pop("chunks", [240.0] * 42)
    plain = Experience(
        cloud="aws",
        machines=[(MACHINE, 100.0)],
        asked=asked,
        container=1,
        whole_cpus=True,
        timeout_seconds=3600,
        chunk_size=24,
        executions=len(memory),
        reasons={},
        reclaims=0,
        wall=measured(wall),
        cores=measured(cores),
        memory_mib=measured(memory),
        chunk_seconds=measured(chunks),
        chunk_hours=sum(chunks) / 3600,
        slot_use=SlotUse(10.0, 9.5, 0.2, 0.1, 0.2),
        usd=10.0,
    )
    return replace(plain, **changes)


SMALL = [RANDOM.uniform(300, 410) for _ in range(1000)]
WIDE = Resources(cpus=4, memory_mib=2048, gpus=0)
JOBS = {
    "nothing to improve": (job(), []),
    "too little is known": (job(memory=[100.0] * 29), []),
    "half the memory is enough": (
        job(memory=SMALL, asked=Resources(cpus=1, memory_mib=3072, gpus=0)),
        ["--memory 768"],
    ),
    "CPUs are the limit, so less memory saves nothing": (
        job(memory=SMALL, asked=Resources(cpus=2, memory_mib=2048, gpus=0), cores=[1.9] * 1000),
        [],
    ),
    "one item is large": (job(memory=[*SMALL, 1990.0]), ["--memory 2560"]),
    "items die of memory": (job(reasons={"memory": 80}, memory=[2000.0] * 1000), ["--memory 3072"]),
    "an item killed its machine": (
        job(memory=SMALL, asked=Resources(cpus=1, memory_mib=3072, gpus=0), reasons={"poison": 1}),
        [],
    ),
    "one core of four is enough": (job(asked=WIDE, cores=[0.9] * 1000), ["--cpus 1"]),
    "with one core the longest would not end in time": (
        job(asked=WIDE, cores=[0.9] * 980 + [3.9] * 20, wall=[10.0] * 999 + [1200.0]),
        [],
    ),
    "items use more cores than they ask for": (job(cores=[1.8] * 1000), ["--cpus 2"]),
    "chunks are reclaimed before they end": (job(reclaims=42), ["--chunk-size 6"]),
    "chunks are over in a moment": (job(chunks=[8.0] * 400, wall=[0.3] * 1000), ["--chunk-size 720"]),
    "slots wait for inputs": (job(slot_use=SlotUse(10.0, 5.0, 4.0, 0.5, 0.5), chunk_size=1), ["--chunk-size 8"]),
}


@pytest.mark.parametrize("name", JOBS)
def test_the_right_flag(name):
    seen, flags = JOBS[name]
    advice = advise(seen)
    assert [each.flag for each in advice] == flags
    for each in advice:
        assert with_flags(f"`{each.keyword}`") == each.flag if each.flag else not each.keyword


@pytest.mark.parametrize(
    ("asked", "flag", "says"),
    [
        (16_000, "--memory 24064", None),
        (
            30_000,
            "--memory 45056",
            "The smallest type that has is r5.2xlarge: ask the stack's owner for",
        ),
        (40_000_000, "", "No machine type of aws has room for 60000000 MiB per item: make the items smaller."),
    ],
    ids=["the queue has room", "another family has", "no type is large enough"],
)
def test_more_memory_ends_at_the_largest_type(asked, flag, says):
    found = queue(machines=[MACHINE])
    needs = Resources(cpus=1, memory_mib=asked, gpus=0)
    (advice,) = advise(
        job(asked=needs, memory=[0.95 * asked] * 1000, reasons={"memory": 80}, queue=found, region="us-west-2")
    )
    assert advice.flag == flag
    assert says is None or says in advice.text
    assert says is not None or "No machine" not in advice.text


@pytest.mark.parametrize("name", JOBS)
def test_the_largest_item_survives(name):
    seen, _ = JOBS[name]
    for each in advise(seen):
        flag, value = each.flag.split()
        if flag == "--memory":
            # A container's memory less the worker's share is what an item is held to.
            assert float(value) - capacity.WORKER_MIB / seen.container >= seen.memory_mib.max
        if flag == "--cpus" and float(value) < seen.asked.cpus:
            assert seen.wall.max * max(1, seen.cores.max / float(value)) < seen.timeout_seconds


def test_any_job_survives_its_advice():
    """The same of jobs that nobody thought of."""
    for _ in range(300):
        most = 10 ** RANDOM.uniform(1.5, 4.4)
        seen = job(
            asked=Resources(
                cpus=RANDOM.choice([1, 2, 4, 8]), memory_mib=RANDOM.choice([512, 2048, 8192, 30000]), gpus=0
            ),
            memory=[RANDOM.uniform(0.05, 1.0) * most for _ in range(60)],
            cores=[10 ** RANDOM.uniform(-2, 1) for _ in range(60)],
            wall=[10 ** RANDOM.uniform(-1, 3.4) for _ in range(60)],
            container=RANDOM.choice([1, 2, 4]),
            whole_cpus=RANDOM.random() < 0.5,
        )
        assert seen.memory_mib
        assert seen.wall
        assert seen.cores
        for each in advise(seen):
            flag, _, value = each.flag.partition(" ")
            if flag == "--memory":
                assert float(value) >= seen.memory_mib.max
            if flag == "--cpus" and float(value) < seen.asked.cpus:
                assert seen.wall.max * max(1, seen.cores.max / float(value)) < seen.timeout_seconds


def test_a_saving_is_stated_with_its_figures():
    (advice,) = advise(JOBS["half the memory is enough"][0])
    assert "410 of 3072 MiB" in advice.text
    assert "16 items run side by side on a c7i.4xlarge instead of 10" in advice.text
    assert "38 % cheaper in all, about 3.75 of 10.00 USD" in advice.text
