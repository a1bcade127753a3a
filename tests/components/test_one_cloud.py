"""Programs where only one cloud's SDK is installed, as `make preview` installs it for a stack.

The other SDK cannot be imported, so a module that wants it at its head fails; tests of the programs have both.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import runpy
import sys
from collections.abc import Iterator
from functools import partial

import pytest

import ops
from plugin.package import COMPONENTS
from tests.components.recording import run
from tests.components.stacks import ROOT, settings

OURS = ("components", "ops", "plugin")
OTHER = {"aws": "pulumi_gcp", "gcp": "pulumi_aws"}
CI = {"repository": "team/repository", "environments": ["dev"]}


@pytest.fixture(params=OTHER)
def cloud(request: pytest.FixtureRequest) -> Iterator[str]:
    """A cloud, while the other one's SDK is not there and our modules are imported anew."""
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in OURS}
    with pytest.MonkeyPatch.context() as patch:
        for name in ours:
            patch.delitem(sys.modules, name)
        patch.setitem(sys.modules, OTHER[request.param], None)
        yield request.param
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]


def test_the_fixture_takes_an_sdk_away(cloud: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(OTHER[cloud])
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("components.gcp.store" if cloud == "aws" else "components.aws.store")


def test_the_accounts_program_runs(cloud: str) -> None:
    config = {"cloud": cloud, "services": json.dumps(["pubsub.googleapis.com"]), "ci": json.dumps(CI)}
    config |= {"serviceLinkedRoles": json.dumps(["batch.amazonaws.com"])}
    program = partial(runpy.run_path, str(ROOT / "bootstrap" / "__main__.py"), run_name="__main__")
    made = run(program, config={f"tidemill:{key}": value for key, value in config.items()})
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
    found = [module for module in COMPONENTS.values() if not module.startswith(f"components.{_other(cloud)}.")]
    assert len(found) > 5
    for module in found:
        importlib.import_module(module)


def test_the_commands_of_operators_are_imported(cloud: str) -> None:
    names = [
        module.name for module in pkgutil.walk_packages(ops.__path__, "ops.") if not module.name.endswith("main__")
    ]
    assert len(names) > 20
    for name in names:
        importlib.import_module(name)


def _other(cloud: str) -> str:
    return OTHER[cloud].removeprefix("pulumi_")
