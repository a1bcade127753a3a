"""`python -m ops preview` as somebody types it, on localcloud: not a preview of an account that exists."""

import subprocess
import sys

import pytest

from ops.processes import end_session
from ops.project import ROOT, STACKS


def ops(*arguments: str, timeout: float = 120) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ops", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    finally:
        end_session(process)
    return process.returncode, output


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        ("vision-dev", "aws:batch/computeEnvironment:ComputeEnvironment: (create)"),
        ("vision-gcp-dev", "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager: (create)"),
    ],
)
def test_a_preview_prints_the_diff_and_leaves_the_repository_alone(stack, part):
    path = STACKS / f"Pulumi.{stack}.yaml"
    before = path.read_bytes()
    code, output = ops("preview", "--stack", stack)
    assert code == 0, output
    assert part in output
    assert "to create" in output
    assert path.read_bytes() == before


def test_an_unknown_stack_is_the_callers_mistake():
    code, output = ops("preview", "--stack", "vision-prd")
    assert code == 2
    assert "there is no stacks/Pulumi.vision-prd.yaml" in output
    assert "vision-prod" in output
    assert "Traceback" not in output
