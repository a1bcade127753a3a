"""The restore drill: a stack whose state is damaged or deleted, and locked, is whole again from the bucket's versions.

The bucket is the bootstrap stack's. On GCP the engine takes localcloud for an emulator, and a passphrase keeps its
secrets, because its client of Cloud KMS reaches only Google.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from localcloud.cloud import Cloud, GcpCloud
from ops.backend import Bucket, Version, aws, gcp
from ops.project import ROOT
from tests.engine.backends.google_backend import emulator
from tests.engine.google import Google
from tests.harness import Project, typed


class Stood(NamedTuple):
    """A team's stack that is up, and the bucket of its state."""

    project: Project
    bucket: Bucket

    @property
    def state(self) -> str:
        return f".pulumi/stacks/tidemill/{self.project.stack}.json"

    @property
    def lock(self) -> str:
        return f".pulumi/locks/organization/tidemill/{self.project.stack}/1a2b.json"

    def live(self, prefix: str) -> list[Version]:
        return [each for each in self.bucket.versions(prefix) if each.live and not each.deletion]

    def restore(self, *options: str) -> tuple[int, str]:
        words = ("-m", "ops", "restore", "--stack", self.project.stack, *options)
        return typed(*words, cwd=ROOT, env=self.project.env)


def up(project: Project, **settings: object) -> Project:
    with project.config() as config:
        config.update({key.replace("__", ":"): value for key, value in settings.items()})
    project.up().ok()
    return project


def on_aws(folder: Path) -> Iterator[tuple[Project, str]]:
    with Cloud(folder / "localcloud") as cloud:
        region = cloud.env["AWS_REGION"]
        outputs = up(
            Project(folder / "account", cloud.env, "account", ROOT / "bootstrap"), aws__region=region
        ).outputs()
        # localcloud has one name for all buckets.
        backend = f"{outputs['backend_url']}?region={region}&use_path_style=true"
        secrets = outputs["secrets_provider"]
        yield up(Project(folder / "team", cloud.env, "vision-dev", backend=backend, secrets=secrets)), backend


def on_gcp(folder: Path) -> Iterator[tuple[Project, str]]:
    with GcpCloud(folder / "localcloud") as cloud, emulator(google := Google(cloud)) as host:
        # Cloud Storage takes one write a second of each object, and an `up` writes the state at each step.
        env = {**cloud.env, "STORAGE_EMULATOR_HOST": host, "PULUMI_SKIP_CHECKPOINTS": "true"}
        account = Project(folder / "account", env, "account", ROOT / "bootstrap")
        place = {"gcp__project": google.project, "gcp__region": "us-central1"}
        outputs = up(account, **place, **{"tidemill-bootstrap__cloud": "gcp"}).outputs()
        team = Project(folder / "team", env, "climate-gcp-dev", backend=outputs["backend_url"])
        yield up(team, gcp__project=google.project, tidemill__data={}), outputs["backend_url"]


@pytest.fixture(scope="module", params=["aws", "gcp"])
def stood(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stood]:
    folder = tmp_path_factory.mktemp(request.param)
    for name in ("account", "team"):
        (folder / name).mkdir()
    for project, backend in {"aws": on_aws, "gcp": on_gcp}[request.param](folder):
        name = re.sub(r"\w+://|\?.*", "", backend)
        with pytest.MonkeyPatch.context() as patched:
            for key, value in project.env.items():
                patched.setenv(key, value)
            bucket = aws.opened(name, project.env["AWS_REGION"]) if request.param == "aws" else gcp.opened(name)
            yield Stood(project, bucket)


def deleted(stood: Stood) -> None:
    stood.bucket.delete(stood.state)


def cut(stood: Stood) -> None:
    (now,) = (each for each in stood.live(stood.state) if each.name == stood.state)
    content = stood.bucket.read(now)
    stood.bucket.write(stood.state, content[: len(content) // 2])


def all_deleted(stood: Stood) -> None:
    """The backend's own file too, without which the engine finds no stack."""
    for each in stood.live(".pulumi/"):
        stood.bucket.delete(each.name)


@pytest.mark.parametrize("damage", [deleted, cut, all_deleted], ids=lambda damage: damage.__name__)
def test_a_damaged_state_is_whole_again(stood, damage):
    damage(stood)
    stood.bucket.write(stood.lock, b"{half")
    stood.project.preview().refused()

    code, listed = stood.restore()
    assert code == 0, listed
    assert "locked: by a lock that cannot be read" in listed
    (proposed,) = re.findall(r"--version (\S+)$", listed, re.MULTILINE)
    code, said = stood.restore("--version", proposed)
    assert (code, "--unlock" in said) == (1, True), said
    assert [each.name for each in stood.live(stood.lock)] == [stood.lock], "nothing is done while it is locked"
    code, said = stood.restore("--version", proposed, "--unlock")
    assert code == 0, said

    assert stood.live(stood.lock) == []
    assert stood.project.preview("--expect-no-changes").ok().plan == []
    assert stood.project.resources() != []


@pytest.mark.parametrize("wrong", [("--version", "0"), ("--stack", "nobody-dev")])
def test_what_is_not_there_is_told(stood, wrong):
    code, said = stood.restore(*wrong)
    assert (code, "Traceback" in said) == (2, False), said
    assert wrong[1] in said
