"""The step of prices.yml that holds the right to write: it takes tables from the job that asked, and nothing else."""

import os
import subprocess
from pathlib import Path

import yaml

WORKFLOW = Path(__file__).parents[3] / ".github/workflows/prices.yml"


def test_only_tables_are_proposed(tmp_path: Path) -> None:
    [step] = [each for each in yaml.safe_load(WORKFLOW.read_text())["jobs"]["propose"]["steps"] if "run" in each]
    data, answer = tmp_path / "tidemill/prices/data", tmp_path / "answer/tidemill/prices/data"
    for folder in (data / "aws", answer / "aws", answer / "gcp", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (data / "own.json").write_text("[]")
    (data / "aws" / "us-west-2.json.gz").write_text("old")
    for name in ("aws/us-west-2.json.gz", "gcp/us-west1.json.gz", "own.json", "__init__.py", "aws/click.py"):
        (answer / name).write_text("new")
    (answer / "aws" / "eu-west-1.json.gz").symlink_to("/etc/passwd")
    (answer / "link").symlink_to(tmp_path)
    for name in ("git", "gh"):
        tool = tmp_path / "bin" / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> typed\n[ "$*" != "diff --cached --quiet" ]\n')
        tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "GH_TOKEN": "secret", "GITHUB_REPOSITORY": "a/b"}
    subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path, env=env, check=True, timeout=60)
    there = {path.relative_to(data).as_posix(): path.read_text() for path in data.rglob("*") if path.is_file()}
    assert there == {"own.json": "[]", "aws/us-west-2.json.gz": "new", "gcp/us-west1.json.gz": "new"}
    typed = (tmp_path / "typed").read_text()
    assert "git push" in typed
    assert "secret" not in typed
