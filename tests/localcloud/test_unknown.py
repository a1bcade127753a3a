"""A preview does not know every value yet: each part of every resource of our stacks may be such a value.

It does not show that the engine sends one at each place, and no stack here makes the types of bootstrap.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from localcloud.aws.provider.table import AWS
from localcloud.gcp.provider.kind import GCP
from localcloud.provider import plan
from localcloud.provider.convert import UNKNOWN, RefusedError
from localcloud.provider.table import fill
from tests.components.stacks import run_program, settings

MORE: dict[str, Any] = {"tidemill:monitoring": {"dashboard": True, "notify": ["oncall@example.com"]}}
FILES: dict[str, dict[str, Any]] = {
    "genomics-prod": {"tidemill:file_systems": {"shared": {"backup": True}}},
    "climate-gcp-dev": {"tidemill:file_systems": {"models": {"tier": "basic_ssd", "size_gib": 2560, "zone": "a"}}},
}
STACKS = ("vision-prod", "genomics-prod", "vision-gcp-prod", "climate-gcp-dev")


@pytest.fixture(scope="module")
def resources() -> dict[str, dict[str, Any]]:
    """Inputs of one resource of each type."""
    found: dict[str, dict[str, Any]] = {}
    for stack in STACKS:
        made = run_program(settings(stack) | MORE | FILES.get(stack, {}), preview=True).resources
        for each in made:
            if each.type.startswith(("aws:", "gcp:")):
                found.setdefault(each.type, {k: _planned(v) for k, v in each.inputs.items() if _plain(v)})
    return found


def _plain(value: Any) -> bool:
    """Whether it is data; sources of functions are archives."""
    return isinstance(value, dict | list | str | int | float | bool)


def _planned(value: Any) -> Any:
    """A value as a first preview knows it: without the mocks' ids and ARNs, which AWS would not take."""
    if isinstance(value, dict):
        return {key: _planned(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_planned(each) for each in value]
    return UNKNOWN if re.fullmatch(r"arn:mock:.*|[\w-]+-id", str(value)) else value


def paths(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*above, key)
        yield from paths(each, (*above, key))


def unknown_at(value: dict[str, Any], path: tuple[str | int, ...]) -> dict[str, Any]:
    found: Any = copy.deepcopy(value)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = UNKNOWN
    return found


def test_no_unknown_value_ends_a_preview(resources):
    faults = []
    for token, inputs in resources.items():
        row = (AWS if token.startswith("aws:") else GCP).row(token)
        for path in paths(inputs):
            given = unknown_at(inputs, path)
            try:
                plan.diff(row, inputs, plan.check(row, "main", {}, given, b"seed"))
            except Exception as error:  # each is a fault of localcloud's
                faults.append((token, path, f"{type(error).__name__}: {error}"))
    assert not faults
    assert len(resources) > 85


def test_what_localcloud_cannot_read_is_named_by_its_key():
    class Broken:
        type_name = "structure"

    with pytest.raises(RefusedError, match=r"^vpcId: localcloud cannot read it: AttributeError"):
        fill("$vpcId", Broken(), {"vpcId": {"a": 1}}, {})
