"""Current code on the states that earlier versions left behind, with the stack files of that time.

It only previews them, as the resources do not exist. The states are frozen; `tests/engine/export_fixture.py` adds new
ones. tests/components/test_names.py also shows, without an engine, that every name of them is still made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import GcpCloud
from tests.engine.export_fixture import RETIRED, prepare, settings, states, text
from tests.harness import Project

RELEASED = {"RegionInstanceTemplate", "BucketObject"}
"""Resources that a release may replace: a template that running machines no longer read, the reconciler's source."""

NARROWED = ("store-work-worker",)
"""Name endings of grants that a release may replace by smaller ones: the new one is made first."""

ON_GCP = [path for path in states() if "gcp" in path.name]
ON_AWS = [path for path in states() if path not in ON_GCP]


def label(path: Path) -> str:
    return f"{path.parent.name}-{path.name.partition('.')[0]}"


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpCloud]:
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        prepare(cloud)
        yield cloud


@pytest.mark.parametrize("state", ON_AWS, ids=label)
def test_an_earlier_stack_on_aws_loses_nothing(state, cloud, tmp_path):
    loses_nothing(state, Project(tmp_path, cloud.env, stack_of(state)))


@pytest.mark.parametrize("state", ON_GCP, ids=label)
def test_an_earlier_stack_on_gcp_loses_nothing(state, google, tmp_path):
    loses_nothing(state, Project(tmp_path, google.env, stack_of(state)))


def stack_of(state: Path) -> str:
    return state.name.removesuffix(".state.json.gz")


def loses_nothing(state: Path, project: Project) -> None:
    with project.config() as config:
        config.clear()
        config.update(settings(state))
        for queue in config["tidemill:queues"].values() if state in ON_AWS else ():
            # A key that is new, in a stack that is old.
            queue["per_job"] = {"markets": ["spot"]}
    plain = project.folder / "state.json"
    plain.write_bytes(text(state))
    project.run("stack", "import", "--file", str(plain)).ok()
    assert len(project.resources()) >= 39
    # Without the policy pack: whether today's rules accept an old stack file does not affect what an upgrade removes.
    run = project.run("preview", "--diff", events=True).ok()
    gone = [step for step in run.steps if "replace" in step.op or "delete" in step.op]
    lost = [
        step
        for step in gone
        if step.kind.rpartition(":")[2] not in RELEASED and not step.name.endswith((*RETIRED, *NARROWED))
    ]
    assert [str(step) for step in lost] == []
    assert state in ON_GCP or any(step.op == "create" and "-market-spot" in step.name for step in run.steps)
