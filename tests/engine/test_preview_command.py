"""`python -m ops preview` as typed by a person, on localcloud and not on an existing account.

The README's quickstart in tests/e2e/test_readme.py previews a stack on AWS.
"""

from ops.project import ROOT, STACKS
from tests.harness import typed


def test_a_preview_prints_the_diff_and_leaves_the_repository_alone():
    path = STACKS / "Pulumi.vision-gcp-dev.yaml"
    before = path.read_bytes()
    code, output = typed("-m", "ops", "preview", "--stack", "vision-gcp-dev", cwd=ROOT)
    assert code == 0, output
    assert "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager: (create)" in output
    assert "to create" in output
    assert path.read_bytes() == before


def test_an_unknown_stack_is_the_callers_mistake():
    code, output = typed("-m", "ops", "preview", "--stack", "vision-prd", cwd=ROOT)
    assert code == 2
    assert "there is no stacks/Pulumi.vision-prd.yaml" in output
    assert "vision-prod" in output
    assert "Traceback" not in output
