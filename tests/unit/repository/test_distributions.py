"""The files that both distributions take from a checkout that has more than git. `tests/distributions.py` builds them.

Not proven: a module that a developer has not committed is taken, as it is imported.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.harness import ROOT

_LEFT = {"pyproject.toml", "LICENSE", "README.md", "reference.py", "schema.py"}


def tracked(folder: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return {*done.stdout.splitlines()}


@pytest.mark.parametrize("folder", ["tidemill", "components"])
def test_a_wheel_has_what_git_has_and_nothing_that_lies_beside_it(tmp_path, folder):
    for name in (folder, "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    (tmp_path / ".gitignore").write_text("__pycache__/\n")
    beside = [".env", "services/.env.local", ".netrc"] + (["notes.txt", "plan.json"] if folder == "components" else [])
    for name in beside:
        (tmp_path / folder / name).write_text("KEY=1\n")
    (tmp_path / ".env").write_text("KEY=1\n")
    project = tmp_path / folder if folder == "components" else tmp_path
    wheel, source = (
        {Path(each.path).relative_to(tmp_path).as_posix() for each in builder(str(project)).recurse_included_files()}
        for builder in (WheelBuilder, SdistBuilder)
    )
    of_repository = {f"components/{name}" for name in _LEFT} | tracked("components/packaging")
    assert wheel == tracked(folder) - of_repository
    assert {Path(name).name for name in source if name.rpartition("/")[2].startswith(".")} <= {".gitignore"}


def test_no_cluster_framework_is_a_dependency() -> None:
    """docs/choosing.md says why."""
    frameworks = {"apache-beam", "celery", "dask", "distributed", "joblib", "metaflow", "parsl", "pyspark", "ray"}
    files = [ROOT / "requirements.txt", *ROOT.glob("requirements-*.txt"), ROOT / "plugin" / "requirements.txt"]
    locked = {line.partition("==")[0] for each in files for line in each.read_text().splitlines() if "==" in line}
    assert {"pulumi", "boto3", "google-auth"} <= locked
    assert not locked & frameworks
