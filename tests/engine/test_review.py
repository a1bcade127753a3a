"""The review of what the real engine says today, beside what was recorded of it (tests/ops/make_previews.py)."""

import json
import subprocess
import sys

import pytest

from ops.processes import end_session
from ops.project import ROOT
from tests.ops.make_previews import load, record
from tests.ops.scenarios import BASES

SCENARIO = "wider-access"


def shape(document: dict) -> dict:
    """What of a preview a review is made from, without what a release of ours may change: values."""
    steps = document["preview"]["steps"]
    return {
        "keys": sorted(document),
        "changed": {
            step["urn"]: (step["op"], sorted(step), sorted(step.get("detailedDiff") or {}))
            for step in steps
            if step["op"] != "same"
        },
    }


def test_the_recordings_are_what_the_engine_says_today():
    base = next(base for base in BASES if any(scenario.name == SCENARIO for scenario in base.scenarios))
    ((_, found),) = record(base, {SCENARIO})
    assert shape(found) == shape(json.loads(load(SCENARIO))), "python -m tests.ops.make_previews records them anew"


@pytest.mark.parametrize("stack", ["vision-dev"])
def test_one_command_previews_and_reviews(stack, tmp_path):
    target = tmp_path / "review.json"
    command = [sys.executable, "-m", "ops", "review", "--stack", stack, "--json", str(target)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=120)
    finally:
        end_session(process)
    assert process.returncode == 0, output
    (found,) = json.loads(target.read_text())["stacks"]
    assert (found["stack"], found["failed"], found["whole"]) == (stack, False, True)
    assert found["counts"]["create"] == len(found["changes"]) > 30
    assert {fleet["name"]: fleet["cpus_after"] for fleet in found["fleets"]} == {f"{stack}-cpu-spot": 64}
