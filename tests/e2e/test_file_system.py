"""A file system that the stack makes, from `up` to `destroy`.

localcloud keeps the files in a folder, evaluates the file system's own policy for each mount, and refuses a mount in a
zone without a mount target. It proves neither NFS, nor the mount helper's TLS, nor that security groups admit it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from localcloud.cloud import Cloud
from tests.components.stacks import settings
from tests.e2e.team import Team, team_up
from tests.engine.inventory import client

MOUNT = {"file_system": "shared", "path": "/mnt/shared"}


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team with two queues that mount one file system, one of them in a single zone and only to read."""
    cpu = settings("demo-aws")["tidemill:queues"]["cpu"]
    queues = {
        "cpu": {**cpu, "mounts": {"shared": MOUNT}},
        "read": {
            **cpu,
            "machines": {**cpu["machines"], "zones": ["c"]},
            "mounts": {"files": {**MOUNT, "read_only": True}},
        },
    }
    file_systems = {"shared": {"infrequent_after_days": 30}, "models": {"backup": True}}
    changes = {"tidemill:queues": queues, "tidemill:file_systems": file_systems}
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=changes)


@pytest.mark.namespaces  # the program names the mount by its path
def test_one_queue_writes_and_another_reads(team: Team) -> None:
    def said(queue: str, program: str) -> str:
        submit = ["submit", "--queue", queue, "--shell", "--json", "x", "--", program]
        job = json.loads(team.tidemill(*submit))["job"]
        team.tidemill("wait", job, ok=(0, 1))
        (result,) = team.results(job)
        return team.read(f"{result['output']}said").decode() if result["status"] == "succeeded" else result["status"]

    assert said("cpu", 'echo kept > /mnt/shared/a && cat /mnt/shared/a > "$TIDEMILL_OUTPUT/said"') == "kept\n"
    assert said("read", '! rm /mnt/shared/a && cat /mnt/shared/a > "$TIDEMILL_OUTPUT/said"') == "kept\n"


def test_a_refresh_and_a_second_up_change_nothing(team: Team) -> None:
    team.project.up("--refresh", "--expect-no-changes").ok()


def test_another_name_touches_nothing_else_and_deletes_no_file(team: Team) -> None:
    with team.project.config() as config:
        config["tidemill:file_systems"]["weights"] = config["tidemill:file_systems"].pop("models")
    refused = team.project.preview().refused()
    assert not any("fs-shared" in step for step in refused.plan)
    assert any("demo-local-fs-models-files" in error and "protected" in error for error in refused.errors)


def test_keys_change_in_place_and_destroy_needs_leave(team: Team) -> None:
    with team.project.config() as config:
        config["tidemill:file_systems"] = {"shared": {"throughput": "bursting"}, "models": {}}
        config["tidemill:allow"] = ["purge"]
    plan = team.project.up().ok().plan
    assert [step for step in plan if "-fs-" in step] == [
        "update FileSystem demo-local-fs-shared-files",
        "delete BackupPolicy demo-local-fs-models-backup",
    ]
    team.project.destroy().ok()
    assert client(team.cloud.env, "efs").describe_file_systems()["FileSystems"] == []
