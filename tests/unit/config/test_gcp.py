"""A config on GCP: its defaults, its machines, and what a preview says of it."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components import machines
from components.config import ConfigError, StackConfig, parse
from components.config.queue_models import Item
from components.gcp import refresh_machines
from components.services.pubsub.keys import notes, one_size, parsed
from tidemill import machines as every
from tidemill.capacity import slots
from tidemill.machines.catalog import DATA
from tidemill.services import of_cloud

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"


def config(**queue: Any):
    queues = {"cpu": {"images": {"default": IMAGE}, **queue}}
    return parse({"team": "t", "environment": "e", "cloud": "gcp", "queues": queues})


def noted(stack: StackConfig) -> list[str]:
    return notes(stack, stack.queues)


def test_a_stack_on_gcp_needs_five_keys():
    cpu = config().queues["cpu"]
    assert cpu.machines.families == ["n2", "n2d", "c3d"]
    assert cpu.machines.size == 16
    assert (cpu.gcp.idle_minutes, cpu.gcp.min_machines, cpu.gcp.scale_in) == (10, 0, "idle")
    assert noted(config()) == []


def test_advice_for_no_one_is_noted():
    stack = {"team": "t", "environment": "e", "cloud": "gcp", "queues": {"cpu": {"images": {"default": IMAGE}}}}
    (line,) = noted(parse({**stack, "access": {"advise": True}}))
    assert "access.advise" in line
    assert noted(parse({**stack, "access": {"advise": True, "submitters": ["group:a@example.com"]}})) == []


def test_a_queue_alone_has_the_same_defaults():
    assert parsed({"images": {"default": IMAGE}}, "cpu") == config().queues["cpu"]


@pytest.mark.parametrize("cpus", [8, {"min": 8, "max": 8}])
def test_one_size_is_a_number_or_a_range_of_one(cpus: Any):
    assert config(machines={"cpus": cpus}).queues["cpu"].machines.size == 8


def test_a_checked_config_can_be_checked_again():
    """The program hands its config to the pipeline, which checks it once more."""
    once = config(gcp={"min_machines": 2})
    assert parse(once.model_dump(exclude_unset=True)) == once


@pytest.mark.parametrize(
    ("series", "shape", "gib_a_cpu"),
    [
        ("n2", "standard", 4),
        ("n2d", "highcpu", 1),
        ("c3", "highmem", 8),
        ("e2", "standard", 4),
        ("n1", "standard", 3.75),
    ],
)
def test_memory_goes_by_shape(series: str, shape: str, gib_a_cpu: float):
    rows = [m for m in machines.families("gcp")[series] if f"-{shape}-" in m.type and m.cpus <= 64]
    assert rows
    assert {m.memory_mib / 1024 / m.cpus for m in rows} == {gib_a_cpu}


def test_the_number_of_a_types_name_is_its_vcpus():
    for family, types in machines.families("gcp").items():
        for machine in types:
            number = re.sub("-(standard|high)?lssd$", "", machine.type).rpartition("-")[2]
            assert int(number.removesuffix("g")) == (machine.gpus if number.endswith("g") else machine.cpus)
            assert machine.type.startswith(family.partition("-")[0] + "-")
            assert (machine.gpus > 0) is (
                family.partition("-")[0] in ("a2", "a3", "a4", "g2", "g4") or family == "n1-t4"
            )
            assert (machine.attach is not None) is (family == "n1-t4")


@pytest.mark.parametrize(
    ("families", "size", "item", "types", "count"),
    [
        # 16 items of 2 GiB do not fit the 16 GiB of n2-highcpu-16; c3d-highcpu-16 has 32, less what the system takes.
        (["n2", "c3d"], 16, (1, 2048, 0), ["n2-standard-16", "c3d-standard-16"], 16),
        (["c3d", "n2"], 16, (1, 512, 0), ["c3d-highcpu-16", "n2-highcpu-16"], 16),
        (["n2"], 16, (4, 30_000, 0), ["n2-highmem-16"], 4),
        # Nothing runs two of them: the least memory that runs one.
        (["n2"], 16, (16, 60_000, 0), ["n2-standard-16"], 1),
        (["n2", "c3"], 16, (1, 2048, 0), ["n2-standard-16"], 16),
        (["g2"], 24, (8, 16_000, 1), ["g2-standard-24"], 2),
        (["n1-t4"], 8, (8, 16_000, 1), ["n1-standard-8"], 1),
        (["n2"], 2, (2, 900_000, 0), [], 0),
    ],
)
def test_each_family_gives_its_cheapest_type_that_runs_the_most(families, size, item, types, count):
    needs = Item(cpus=item[0], memory_mib=item[1], gpus=item[2])
    found = one_size(families, size, needs)
    assert [machine.type for machine in found] == types
    assert min((slots(of_cloud("gcp"), machine, needs) for machine in found), default=0) == count


def test_another_type_of_its_family_takes_the_place_of_an_excluded_one():
    queue = config(machines={"families": ["n2", "n2d"], "cpus": 16, "exclude": ["n2-standard-16"]}).queues["cpu"]
    every = config(machines={"families": ["n2", "n2d"], "cpus": 16}).queues["cpu"]
    assert [machine.type for machine in every.types("gcp")] == ["n2-standard-16", "n2d-standard-16"]
    assert [machine.type for machine in queue.types("gcp")] == ["n2-highmem-16", "n2d-standard-16"]


def test_a_family_whose_only_type_is_excluded_is_said():
    machines = {"families": ["n2", "e2"], "cpus": 16, "exclude": ["e2-highcpu-16", "e2-standard-16", "e2-highmem-16"]}
    (line,) = noted(config(machines=machines))
    assert line.startswith("tidemill:queues.cpu.machines.families[1]: e2 is left out")
    assert "machines.exclude" in line


def test_what_is_left_out_is_said():
    (line,) = noted(config(machines={"families": ["n2", "c3"], "cpus": 16}))
    assert line.startswith("tidemill:queues.cpu.machines.families[1]: c3 is left out, it has no machine of 16 vCPUs")
    assert line.endswith("it has 4, 8, 22, 44, 88, 176.")


def test_capacity_that_no_number_of_machines_fills_is_said():
    capacity = [{"market": "spot", "max_cpus": 100}, {"market": "on_demand", "max_cpus": 32}]
    (line,) = noted(config(capacity=capacity))
    assert line == (
        "tidemill:queues.cpu.capacity[0].max_cpus: 100 is not a multiple of machines.cpus (16); 6 machines, 96 vCPUs, "
        "are the most."
    )


GOOGLES = "us-docker.pkg.dev/base/images/python@sha256:" + 64 * "0"


@pytest.mark.parametrize(
    ("key", "changes", "queue"),
    [
        ("tidemill:worker_image", {"worker_image": IMAGE}, {}),
        ("tidemill:queues.cpu.gcp.fuse_image", {}, {"gcp": {"fuse_image": IMAGE}}),
    ],
)
def test_without_internet_every_image_is_in_googles_registries(
    key: str, changes: dict[str, Any], queue: dict[str, Any]
):
    queues = {"cpu": {"images": {"default": GOOGLES}}}
    good = {"team": "t", "environment": "e", "cloud": "gcp", "network": {"create": {"egress": "endpoints"}}}
    assert parse({**good, "queues": queues})
    queues["cpu"] |= queue
    with pytest.raises(ConfigError, match=f"^{key}: .*docker.io.* only Google's registries"):
        parse({**good, **changes, "queues": queues})


def gpus_of(machine: machines.MachineType) -> dict[str, Any]:
    """The first accelerator of the GPU's name and memory; those of a3 and a3-mega differ by name alone."""
    gpu = (machine.gpu_name, machine.gpu_memory_mib)
    names = [name for name, value in refresh_machines.GPUS.items() if value == gpu]
    return {"guestAcceleratorType": names[0], "guestAcceleratorCount": machine.gpus}


def described() -> list[dict[str, Any]]:
    """The committed table as Compute Engine would describe it, and what a refresh has to leave out."""
    types = [
        {
            "name": machine.type,
            "guestCpus": machine.cpus,
            "memoryMb": machine.memory_mib,
            "architecture": machine.architecture.upper(),
            **({"bundledLocalSsds": {"partitionCount": machine.disks}} if machine.disks else {}),
            **({"accelerators": [gpus_of(machine)]} if machine.gpus else {}),
        }
        for machine in every.table("gcp").types
        if not machine.attach
    ]
    shared = {"name": "e2-standard-99", "guestCpus": 2, "memoryMb": 4096, "isSharedCpu": True}
    names = ("c3-standard-192-metal", "e2-micro", "m3-x-1", "z3-highmem-88", "z3-highmem-192-highlssd-metal")
    others = [{"name": name, "guestCpus": 8, "memoryMb": 1} for name in names]
    return [*reversed(types), *types, shared, *others]


def test_a_refresh_writes_the_same_table(tmp_path: Path):
    path = tmp_path / "machines.json"
    count = machines.write(refresh_machines.rows(described()), "a test", path)
    assert json.loads(path.read_text())["machines"] == json.loads((DATA / "gcp.json").read_text())["machines"]
    assert count == len(json.loads(path.read_text())["machines"])


def test_every_page_of_the_answer_is_read():
    asked: list[str] = []

    class Session:
        def get(self, url: str, params: dict[str, Any], timeout: float):
            asked.append(params["pageToken"])
            zone = {"machineTypes": [{"name": f"n2-standard-{len(asked)}"}]}
            more = {"nextPageToken": "more"} if len(asked) == 1 else {}
            body = {"items": {"zones/a": zone, "zones/b": {"warning": {}}}, **more}
            return SimpleNamespace(raise_for_status=lambda: None, json=lambda: body)

    session: Any = Session()
    assert [each["name"] for each in refresh_machines.ask(session, "p")] == ["n2-standard-1", "n2-standard-2"]
    assert asked == ["", "more"]
