"""`python -m ops preview` as typed by a person, on localcloud and not on an existing account."""

import pytest

from ops.project import ROOT, STACKS
from tests.harness import typed


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
    code, output = typed("-m", "ops", "preview", "--stack", stack, cwd=ROOT)
    assert code == 0, output
    assert part in output
    assert "to create" in output
    assert path.read_bytes() == before


def test_an_unknown_stack_is_the_callers_mistake():
    code, output = typed("-m", "ops", "preview", "--stack", "vision-prd", cwd=ROOT)
    assert code == 2
    assert "there is no stacks/Pulumi.vision-prd.yaml" in output
    assert "vision-prod" in output
    assert "Traceback" not in output
