"""The jobs of deploy.yml: a plan that fails holds back its own stack only.

Only GitHub evaluates its expressions. These tests hold their text, and run the step that chooses the stacks.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
JOBS = yaml.safe_load((ROOT / ".github/workflows/deploy.yml").read_text())["jobs"]
STACKS = ["atlas.demo-aws", "atlas.demo-gcp", "atlas.prod"]


def chosen(folder: Path, affected: list[str], planned: list[str]) -> list[str]:
    """The stacks that the job `planned` hands to `deploy`."""
    if planned:
        (folder / "plans").mkdir()
    for stack in planned:
        (folder / "plans" / f"{stack}.json").write_text("{}")
    output = folder / "output"
    [step] = [step for step in JOBS["planned"]["steps"] if "run" in step]
    environment = os.environ | {
        "STACKS": json.dumps([{"stack": stack} for stack in affected]),
        "GITHUB_OUTPUT": str(output),
    }
    subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=folder, env=environment, check=True)
    [line] = output.read_text().splitlines()
    return [row["stack"] for row in json.loads(line.removeprefix("stacks="))]


@pytest.mark.parametrize("planned", [STACKS, [STACKS[0], STACKS[2]], []])
def test_stacks_with_a_plan_are_deployed_whatever_the_others_did(tmp_path: Path, planned: list[str]) -> None:
    assert chosen(tmp_path, STACKS, planned) == planned


def test_no_plan_fails_another_and_no_failed_plan_stops_the_choice() -> None:
    for job, source in {"plan": "stacks", "deploy": "planned"}.items():
        assert JOBS[job]["strategy"]["fail-fast"] is False
        assert JOBS[job]["strategy"]["matrix"] == {"include": f"${{{{ fromJSON(needs.{source}.outputs.stacks) }}}}"}
        assert JOBS[job]["needs"] == source
    assert JOBS["planned"]["needs"] == ["stacks", "plan"]
    # `!cancelled()` lets a job follow one that failed. The result of `plan` is in no condition.
    for job in ("planned", "deploy"):
        assert "!cancelled()" in JOBS[job]["if"]
        assert "needs.plan.result" not in JOBS[job]["if"]


@pytest.mark.parametrize(("job", "source"), [("plan", "stacks"), ("planned", "stacks"), ("deploy", "planned")])
def test_no_affected_stack_starts_no_job(job: str, source: str) -> None:
    assert f"needs.{source}.outputs.stacks != '[]'" in JOBS[job]["if"]
