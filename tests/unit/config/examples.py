"""Configs that are right, and ways to make them wrong."""

import copy
from pathlib import Path
from typing import Any

import yaml

IMAGE = "docker.io/team/preprocess@sha256:" + 64 * "0"

GOOD: dict[str, Any] = {
    "team": "vision",
    "environment": "dev",
    "queues": {
        "cpu": {
            "images": {"default": IMAGE},
            "item": {"cpus": 2, "memory_mib": 4096},
            "machines": {"families": ["c7i", "m7i"], "cpus": {"min": 4, "max": 16}},
            "capacity": [{"market": "spot", "max_cpus": 64}],
        }
    },
}

GOOD_ON_GCP: dict[str, Any] = {
    "team": "vision",
    "environment": "dev",
    "cloud": "gcp",
    "data": {"read": ["gs://refs/hg38/"], "write": ["gs://features/vision/"]},
    "queues": {
        "cpu": {
            "images": {"default": IMAGE},
            "item": {"cpus": 2, "memory_mib": 4096},
            "machines": {"families": ["n2", "n2d"], "cpus": 16},
            "capacity": [{"market": "spot", "max_cpus": 64}],
        }
    },
}


def changed(path: str, value: Any, good: dict[str, Any] = GOOD) -> dict[str, Any]:
    """A good config with one key set: ``queues.cpu.item.cpus``; digits are list positions."""
    config = copy.deepcopy(good)
    *parents, last = path.split(".")
    here: Any = config
    for part in parents:
        here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
    here[int(last) if isinstance(here, list) else last] = value
    return config


def without(path: str) -> dict[str, Any]:
    config = copy.deepcopy(GOOD)
    *parents, last = path.split(".")
    here: Any = config
    for part in parents:
        here = here[part]
    del here[last]
    return config


CASES = yaml.load((Path(__file__).parent / "bad_stack_configs.yaml").read_text(), yaml.CSafeLoader)


def built(case: dict[str, Any]) -> dict[str, Any]:
    """The config of a case: the good one of its cloud with some keys set, or without one."""
    if "unset" in case:
        return without(case["unset"])
    config = GOOD_ON_GCP if case.get("cloud") == "gcp" else GOOD
    for path, value in case["set"].items():
        config = changed(path, value, config)
    return config
