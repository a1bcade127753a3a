"""The programs of examples/pulumi in TypeScript and YAML, through the package's plugin, on localcloud.

TypeScript is generated, compiled and run by Pulumi's own parts (`tests/engine/typescript`). No registry has Pulumi's
language host for YAML: here `yaml_program.py` reads the file, which shows that the package takes what it says.
"""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from plugin.examples import Example
from plugin.package import COMPONENTS
from tests.engine import typescript
from tests.engine.inventory import inventory
from tests.harness import ROOT, Project

EXAMPLES = ROOT / "examples" / "pulumi"
HERE = Path(__file__).parent
PLUGIN = {"providers": [{"name": "tidemill", "path": str(ROOT / "plugin")}]}


def run_through(project: Project) -> None:
    """Bring an example up, up again without a change, and destroy it."""
    assert {step.op for step in project.run("up", "--yes", events=True).ok().steps} == {"create"}
    assert project.up("--expect-no-changes").ok().plan == []
    assert project.outputs()["pipelineUri"].endswith("/pipeline.json")
    project.destroy().ok()
    assert project.resources() == []


@pytest.fixture(autouse=True)
def leaves_nothing(cloud) -> Iterator[None]:
    before = inventory(cloud.env)
    yield
    assert inventory(cloud.env) == before


@pytest.fixture(scope="module")
def packages(cloud, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which TypeScript finds what the examples import."""
    command = ["pulumi", "package", "get-schema", str(ROOT / "plugin")]
    run = subprocess.run(
        command, env=cloud.env, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL, check=False
    )
    assert run.returncode == 0, run.stderr
    folder = tmp_path_factory.mktemp("packages")
    typescript.sdk(run.stdout, folder)
    return folder / "node_modules"


@pytest.fixture
def new_typescript(packages: Path, new_project: Callable[..., Project], tmp_path: Path) -> Callable[[str], Project]:
    def make(name: str) -> Project:
        source = tmp_path / name
        shutil.copytree(EXAMPLES / name, source)
        (source / "node_modules").symlink_to(packages)
        typescript.compiled(source)
        settings = yaml.safe_load((source / "Pulumi.yaml").read_text())
        # The language host would compile the program as it runs it.
        (source / "Pulumi.yaml").write_text(json.dumps(settings | {"main": "bin/index.js", "plugins": PLUGIN}))
        project = new_project("dev", source)
        typescript.launcher(tmp_path)
        project.env["PATH"] = f"{tmp_path}:{project.env['PATH']}"
        with project.config() as config:
            config[f"{settings['name']}:purge"] = True
        return project

    return make


@pytest.mark.parametrize("name", ["typescript"])
def test_a_typescript_program_comes_up_once_and_goes_whole(name, new_typescript):
    run_through(new_typescript(name))


def test_typescript_refuses_a_misspelt_key_and_a_value_that_is_not_in_a_set(packages, tmp_path):
    source = tmp_path / "wrong"
    shutil.copytree(EXAMPLES / "typescript", source)
    (source / "node_modules").symlink_to(packages)
    program = source / "index.ts"
    right = program.read_text()
    for old, new, said in (("memoryMib", "memoryMb", "'memoryMb' does not exist"), ('"spot"', '"spott"', '"spott"')):
        program.write_text(right.replace(old, new))
        with pytest.raises(AssertionError, match=said):
            typescript.compiled(source)


def test_typescript_takes_the_examples_of_the_packages_documentation(packages, tmp_path):
    """Each is a module; all are compiled at once."""
    (tmp_path / "node_modules").symlink_to(packages)
    settings = json.loads((EXAMPLES / "typescript" / "tsconfig.json").read_text())
    for name, module in COMPONENTS.items():
        example = Example(getattr(importlib.import_module(module), name), "tidemill", set(COMPONENTS))
        (tmp_path / f"{name}.ts").write_text(example.typescript())
    settings["files"] = [f"{name}.ts" for name in COMPONENTS]
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    typescript.compiled(tmp_path, "--noEmit")


@pytest.mark.parametrize("name", ["yaml"])
def test_the_package_takes_what_a_yaml_program_says(name, new_project, tmp_path):
    document = yaml.safe_load((EXAMPLES / name / "Pulumi.yaml").read_text())
    program = {key: document.pop(key) for key in ("resources", "outputs")}
    (tmp_path / "program.json").write_text(json.dumps(program))
    (tmp_path / "__main__.py").symlink_to(HERE / "yaml_program.py")
    (tmp_path / "Pulumi.yaml").write_text(json.dumps(document | {"runtime": "python", "plugins": PLUGIN}))
    project = new_project("dev", tmp_path)
    with project.config() as config:
        config[f"{document['name']}:allow"] = ["purge"]
    run_through(project)
