"""Programs where only one cloud's SDK and client are installed, as `make preview` installs them for a stack.

Those of the other cloud cannot be imported, so a module that wants them at its head fails; tests of the programs have
both.
"""

from __future__ import annotations

import importlib
import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import pytest
from click.testing import CliRunner

from ops.__main__ import COMMANDS
from ops.clouds import CLIENTS
from plugin.package import COMPONENTS
from tests.components.recording import run
from tests.components.stacks import ROOT, settings

OURS = ("components", "ops", "plugin")
OTHER = {"aws": "gcp", "gcp": "aws"}
OF_ONE = {"insights": "aws"}
"""Commands for the stacks of one cloud alone."""
UNUSED = {
    "demo-aws": ("pulumi_aws", {"budgets", "ecr", "efs", "kinesis"}),
    "demo-gcp": ("pulumi_gcp", {"billing", "filestore"}),
}
"""Services that components know and these stacks do not use."""
PROGRAM = """
import sys
from tests.components.stacks import run_stack
run_stack(sys.argv[1])
print(*{".".join(name.split(".")[:2]) for name in sys.modules if name.count(".") > 1})
"""
CI = {"repository": "team/repository", "environments": ["dev"]}


@pytest.fixture(params=OTHER)
def cloud(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cloud, while what the other one needs is not there and our modules are imported anew."""
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS}
    with pytest.MonkeyPatch.context() as patch:
        for name in ours:
            patch.delitem(sys.modules, name)
        absent = CLIENTS[OTHER[request.param]]
        # Google's name is also that of libraries that Pulumi needs.
        absent = [name.replace("google.", "google.auth") for name in absent]
        for name in [name for name in sys.modules if name.startswith(tuple(f"{each}." for each in absent))] + absent:
            patch.setitem(sys.modules, name, None)
        yield request.param
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]


def test_the_fixture_takes_an_sdk_away(cloud: str) -> None:
    for name in (
        ("pulumi_gcp", "google.auth.exceptions") if cloud == "aws" else ("pulumi_aws", "boto3", "botocore.config")
    ):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("components.gcp.store" if cloud == "aws" else "components.aws.store")


def test_the_accounts_program_runs(cloud: str) -> None:
    config = {"cloud": cloud, "ci": json.dumps(CI)}
    program = partial(runpy.run_path, str(ROOT / "bootstrap" / "__main__.py"), run_name="__main__")
    made = run(program, config={f"tidemill-bootstrap:{key}": value for key, value in config.items()})
    assert len(made.of("AwsBootstrap" if cloud == "aws" else "GcpBootstrap")) == 1
    assert len(made.of("AwsCi" if cloud == "aws" else "GcpCi")) == 1


def test_the_shared_stacks_program_runs(cloud: str) -> None:
    program = partial(runpy.run_path, str(ROOT / "shared" / "__main__.py"), run_name="__main__")
    config = {"tidemill-shared:cloud": cloud, "aws:region": "us-west-2", "gcp:region": "us-central1"}
    made = run(program, config=config)
    assert len(made.of("AwsShared" if cloud == "aws" else "GcpShared")) == 1


def test_a_teams_program_runs(cloud: str) -> None:
    values = settings("vision-dev" if cloud == "aws" else "vision-gcp-dev")
    config = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    made = run(partial(runpy.run_path, str(ROOT / "__main__.py"), run_name="__main__"), config=config)
    assert len(made.of("Pipeline")) == 1


def test_the_plugin_and_its_components_of_the_cloud_are_imported(cloud: str) -> None:
    importlib.import_module("plugin.provider")
    modules = [module for kind, module in COMPONENTS.items() if not kind.startswith(OTHER[cloud].title())]
    assert len(modules) > 5
    for module in modules:
        importlib.import_module(module)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_operators_starts_or_names_what_to_install(cloud: str, command: str) -> None:
    done = CliRunner().invoke(importlib.import_module("ops.__main__").main, [command, "--help"])
    if OF_ONE.get(command, cloud) == cloud:
        assert (done.exit_code, done.output.partition(" ")[0]) == (0, "Usage:")
    else:
        assert (done.exit_code, f"make .venv/.{OTHER[cloud]}" in done.output) == (2, True)


def test_what_was_added_by_hand_is_asked_of_the_stacks_cloud(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = importlib.import_module("ops.additions.ask")
    asked = []
    monkeypatch.setattr(ask, "answered", lambda *_, **__: {})
    monkeypatch.setattr(ask, "exported", lambda _: [])
    monkeypatch.setattr("ops.engine.region_of", lambda *_: "us-west-2")
    monkeypatch.setattr(f"ops.additions.{cloud}.added", lambda *_: asked.append(cloud) or [])
    settings = importlib.import_module("components.config").StackConfig
    assert ask.additions("team-dev", settings.model_construct(cloud=cloud)) == []
    assert asked == [cloud]


@pytest.mark.parametrize("stack", UNUSED)
def test_a_service_that_a_stack_does_not_use_is_not_loaded(stack: str) -> None:
    """Each service costs a preview time and up to 4 MB. A quoted annotation does not load the service that it names."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, stack], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    sdk, unused = UNUSED[stack]
    loaded = {name.partition(".")[2] for name in done.stdout.split() if name.startswith(f"{sdk}.")}
    assert len(loaded) > 3
    assert loaded & unused == set()
