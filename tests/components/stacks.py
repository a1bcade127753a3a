"""The committed stacks and a small one, run under the mocks."""

from __future__ import annotations

import json
import runpy
from functools import cache, partial
from pathlib import Path
from typing import Any

import yaml

from components.machines import families
from tests.components.recording import Recorder, run_with
from tidemill.capacity import usable_memory_mib
from tidemill.machines import family as family_row
from tidemill.services import of_cloud

ROOT = Path(__file__).resolve().parents[2]
STACKS = sorted(path.stem.removeprefix("Pulumi.") for path in (ROOT / "stacks").glob("Pulumi.*.yaml"))
GCP_STACKS = [name for name in STACKS if "gcp" in name]
AWS_STACKS = [name for name in STACKS if name not in GCP_STACKS]
IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"


def settings(stack: str) -> dict[str, Any]:
    """What a stack file sets, by its full keys."""
    return yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]


def run_stack(stack: str, *, preview: bool = False, **changes: Any) -> Recorder:
    """Run the program of a committed stack; changes are `tidemill:` keys and their values.

    Without changes, the program runs once for all tests: read the result only.
    """
    if not changes:
        return _unchanged(stack, preview)
    values = settings(stack) | {f"tidemill:{name}": value for name, value in changes.items()}
    return run_program(values, preview=preview)


@cache
def _unchanged(stack: str, preview: bool) -> Recorder:
    return run_program(settings(stack), preview=preview)


def run_program(values: dict[str, Any], *, preview: bool = False, recorder: Recorder | None = None) -> Recorder:
    """Run the program with a config, by full keys, encoded as the engine hands it over."""
    config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    program = partial(runpy.run_path, str(ROOT / "__main__.py"), run_name="__main__")
    return run_with(recorder or Recorder(), program, preview=preview, config=config)


FAMILY_STACK = {"aws": "vision-dev", "gcp": "vision-gcp-dev"}
OWN_AMI = "ami-0123456789abcdef0"


def queue_of(cloud: str, family: str) -> dict[str, Any]:
    """The smallest queue of a family that takes a whole machine for an item, bought as it is sold."""
    machine = next(each for each in families(cloud)[family] if each.cpus > 1)
    machines = {"families": [family], "cpus": machine.cpus}
    if machine.neurons or family_row(cloud, family).image:
        machines["image"] = OWN_AMI
    memory = min(2048 * machine.cpus, usable_memory_mib(of_cloud(cloud), machine))
    market = "spot" if "spot" in machine.markets else "on_demand"
    return {
        "images": {"default": IMAGE},
        "item": {"cpus": machine.cpus, "memory_mib": memory, "gpus": machine.gpus},
        "machines": machines,
        "capacity": [{"market": market, "max_cpus": 2 * machine.cpus}],
    }


BLOCK = {"capacity": [{"market": "on_demand", "max_cpus": 192, "reservation": "cr-0123456789abcdef0", "block": True}]}
RESERVED = {"capacity": [{"market": "on_demand", "max_cpus": 224, "reservation": "gpus"}]}
QUEUES: dict[str, dict[str, dict[str, Any]]] = {
    "aws": {
        **{family: queue_of("aws", family) for family in ("c8i", "m8g", "g6e", "g7", "inf2", "trn1", "hpc7a", "p4de")},
        "p5en": queue_of("aws", "p5en") | BLOCK,
    },
    "gcp": {
        **{
            family: queue_of("gcp", family)
            for family in ("c4", "n4", "n1-t4", "a2", "a2-ultra", "a3", "g4", "h3", "z3")
        },
        **{family: queue_of("gcp", family) | RESERVED for family in ("a3-ultra", "a4")},
    },
}
QUEUES["aws"]["p5en"]["machines"] |= {"zones": ["a"]}
"""Queues of each kind of family: processors, GPUs, images, accelerators of AWS, disks, and ways to buy machines."""


def recorder() -> Recorder:
    """A cloud that has the image with the driver that Batch's own have not."""
    image = {"state": "available", "platform": "", "architecture": "x86_64", "rootDeviceName": "/dev/xvda"}
    return Recorder(images={OWN_AMI: image | {"blockDeviceMappings": []}})
