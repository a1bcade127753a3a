"""Hostile items on AWS: none gets out, and each is told the reason that is written here.

They run as root in containers on localcloud's machines, with the real service, launcher, mounts and credentials of a
stack. What this cannot prove: what Docker's seccomp and device rules refuse on top of it, that systemd's fence holds
on an account (docs/first-account.md asks), and what AWS decides where localcloud's evaluator follows its documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.attack.hostile_job import OTHERS, HostileJob
from tests.attack.programs.reasons import AWS, GCP
from tests.e2e.team import Team, client, team_up
from tests.e2e.test_any_image import THIS_MACHINE
from tests.worker_image import cached
from worker_image import image

pytestmark = pytest.mark.namespaces


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose machines bring the worker, with another team's store in the account."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        registry = cloud.control("batch/registry")["address"]
        built = cached.build().tree.parent
        names = ("tidemill-worker", "preprocess")
        worker, other = (
            image.push(built, f"{registry}/demo-local/{name}").replace(f"{registry}/demo-local", "registry:/")
            for name in names
        )
        queue = {
            "images": {"default": THIS_MACHINE, "other": other},
            "item": {"cpus": 1, "memory_mib": 512},
            "machines": {"families": ["c6i"], "cpus": {"min": 4, "max": 4}},
            "capacity": [{"market": "spot", "max_cpus": 4}],
        }
        settings = {
            "tidemill:worker_image": worker,
            "tidemill:queues": {"cpu": queue},
            "tidemill:access": {"submitters": ["arn:aws:iam::123456789012:root"]},
        }
        made = team_up(cloud, tmp_path_factory.mktemp("demo-aws"), settings=settings)
        here = {"CreateBucketConfiguration": {"LocationConstraint": cloud.env["AWS_REGION"]}}
        s3 = client(cloud.env, "s3")
        s3.create_bucket(Bucket=OTHERS, **here)
        s3.put_object(Bucket=OTHERS, Key="jobs/a/job.json", Body=b"theirs")
        yield made


@pytest.fixture(scope="module")
def job(team: Team, tmp_path_factory: pytest.TempPathFactory) -> HostileJob:
    described = team.project.descriptor()["queues"]["cpu"]
    other = described["images"]["other"]["ref"]
    worker = client(team.cloud.env, "s3").get_object(Bucket=team.bucket, Key="machines/cpu/worker")["Body"].read()
    secret = client(team.cloud.env, "secretsmanager").create_secret(Name="theirs", SecretString="s3cret")["ARN"]
    facts = {
        **{key: value for key, value in team.outputs.items() if key.endswith("role_arn")},
        "worker": worker.decode(),
        "image": worker.decode().partition("@")[0].replace("tidemill-worker", "preprocess") + other[other.index("@") :],
        "region": team.cloud.env["AWS_REGION"],
        "bucket": team.bucket,
        "others": OTHERS,
        "secret": secret,
        "queue": described["aws"]["job_queue"],
        "definition": described["images"]["default"]["job_definition"],
    }
    return HostileJob(team, "out_of_aws.py", AWS, facts, tmp_path_factory.mktemp("items"))


@pytest.mark.parametrize("way", AWS)
def test_no_way_leads_out(job: HostileJob, way: str) -> None:
    job.check_way(way)


def test_a_fetch_writes_into_its_folder_alone(job: HostileJob, tmp_path: Path) -> None:
    job.check_fetch(tmp_path)


def test_the_terminal_sees_text(team: Team, job: HostileJob) -> None:
    way = list(AWS).index("the submitter's terminal")
    shown = team.tidemill("logs", job.id, "--item", str(way))
    assert "owned-by-a-line" in shown
    assert not {"\x1b", "\x07"} & set(shown)


def test_there_are_enough_ways() -> None:
    assert len(AWS) + len(GCP) >= 40
