"""The life of the demo stack: up, no change, refresh, changes of its config, destroy.

The tests share one stack and run in this order. They show what the engine does with localcloud's providers, whose
table of replacements is taken from the real provider; they do not show what AWS itself would answer.
"""

from __future__ import annotations

import datetime

import pytest

from ops.project import ROOT
from tests.engine.inventory import client, inventory
from tests.harness import Project, typed

QUEUE = "tidemill:queues"


@pytest.fixture(scope="module")
def before(cloud):
    """The content of an account on its first day."""
    return inventory(cloud.env)


@pytest.fixture(scope="module")
def project(before, new_project) -> Project:
    project = new_project("demo-aws")
    with project.config() as config:
        config["aws:defaultTags"] = {"tags": {"cost-center": "tides"}}
        config["tidemill:worker_image"] = f"registry://tidemill-worker@sha256:{64 * '0'}"
        config["tidemill:schedules"] = {"nightly": {"template": "tiles", "cron": "30 2 * * *"}}
        config["tidemill:arrivals"] = {"files": {"template": "tiles", "prefix": "s3://tidemill-demo-photos/in/"}}
    run = project.up(*project.policies()).ok()
    assert {step.op for step in run.steps} == {"create"}
    assert run.violations == []
    return project


def plan_of(project: Project, **changes) -> list[str]:
    """Change keys of the queue `cpu`, apply, and return the steps in order."""
    with project.config() as config:
        config[QUEUE]["cpu"] = config[QUEUE]["cpu"] | changes
    return project.up().ok().plan


def test_a_second_up_changes_nothing(project):
    assert project.up("--expect-no-changes").ok().plan == []


def test_a_refresh_finds_no_difference(project):
    assert project.refresh("--expect-no-changes").ok()


def test_default_tags_and_the_teams_own_reach_the_cloud(project, cloud):
    bucket = project.descriptor()["store"].removeprefix("s3://")
    tags = {tag["Key"]: tag["Value"] for tag in client(cloud.env, "s3").get_bucket_tagging(Bucket=bucket)["TagSet"]}
    assert tags["cost-center"] == "tides"
    assert "demo" in tags.values()
    environments = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    assert all(environment["tags"]["cost-center"] == "tides" for environment in environments)


def test_more_cpus_and_other_families_update_the_compute_environment_alone(project, cloud):
    machines = {"families": ["c6i", "m6i", "m7i"], "cpus": {"min": 2, "max": 4}}
    assert plan_of(project, capacity=[{"market": "spot", "max_cpus": 16}], machines=machines) == [
        "update ComputeEnvironment demo-local-cpu-spot",
        "update BucketObjectv2 demo-local-store-pipeline",
    ]
    (environment,) = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    assert environment["computeResources"]["maxvCpus"] == 16
    assert "m7i.xlarge" in environment["computeResources"]["instanceTypes"]


def test_more_scratch_is_a_new_version_of_the_launch_template_that_the_environment_follows(project, cloud):
    assert plan_of(project, scratch_gib=30) == [
        "update LaunchTemplate demo-local-cpu-machines",
        "update ComputeEnvironment demo-local-cpu-spot",
        "update BucketObjectv2 demo-local-store-pipeline",
    ]
    (environment,) = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    assert environment["computeResources"]["launchTemplate"]["version"] == "2"


def test_another_image_is_a_new_revision_and_one_beside_it_another_definition(project, cloud):
    new, legacy = "docker.io/library/python@sha256:" + "1" * 64, "quay.io/old@sha256:" + "2" * 64
    assert sorted(plan_of(project, images={"default": new, "legacy": legacy})) == [
        "create JobDefinition demo-local-cpu-legacy",
        "update BucketObjectv2 demo-local-store-pipeline",
        "update JobDefinition demo-local-cpu-default",
        "update Policy demo-local-identity-submitter",
        "update RolePolicy demo-local-sender-submit-demo-local-sender-function",
    ]
    found = client(cloud.env, "batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    # The old revision of the default stays.
    assert sorted(definition["revision"] for definition in found) == [1, 1, 2]


def ops_queue(project, *words: str) -> tuple[int, str]:
    """Run `python -m ops queue` with the stacks/ of this copy of the project."""
    program = (
        "import sys; from pathlib import Path; from ops import project; from ops.__main__ import main\n"
        "project.ROOT = Path.cwd(); project.STACKS = project.ROOT / 'stacks'\n"
        "main(['queue', *sys.argv[1:], '--stack', 'demo-aws'])"
    )
    env = project.env | {"PYTHONPATH": str(ROOT)}
    return typed("-c", program, *words, cwd=project.folder, env=env)


def test_a_queue_is_changed_and_brought_up_in_one_command(project, cloud):
    code, output = ops_queue(project, "set", "cpu", "capacity[0].max_cpus=24", "--up")
    assert code == 0, output
    assert "max_cpus: 24" in output
    (environment,) = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    assert environment["computeResources"]["maxvCpus"] == 24
    assert project.up("--expect-no-changes").ok().plan == []


def test_an_image_is_renamed_and_a_queue_goes_as_documented(project, cloud):
    """docs/upgrading.md, "Taking a queue away". The images stay: a repository that no image names is kept."""

    def there() -> tuple[set[str], int]:
        repositories = client(cloud.env, "ecr").describe_repositories()["repositories"]
        queues = client(cloud.env, "batch").describe_job_queues()["jobQueues"]
        return {each["repositoryName"].partition("/")[2] for each in repositories}, len(queues)

    def allow(*keys: str) -> None:
        """Set `allow`. This environment's policies demand protection, as production's do."""
        rules = ("aws-batch-compute-environment-protect", "aws-batch-job-queue-protect") if keys else ()
        until = str(datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(7))
        with project.config() as config:
            config["tidemill:allow"] = list(keys)
            config["tidemill:waivers"] = [
                {"rule": rule, "reason": "The nightly queue goes", "until": until} for rule in rules
            ]

    worker, _ = there()
    with project.config() as config:
        config[QUEUE]["cpu"]["images"]["named"] = "registry://preprocess:1.0.0"
        config[QUEUE]["nightly"] = {"images": {"default": "registry://digest:1.0.0"}}
        config[QUEUE]["cpu"]["per_job"] = {"markets": ["spot"]}
    project.up().ok()
    assert there() == ({*worker, "preprocess", "digest"}, 3)
    [spot] = [
        each["computeEnvironmentOrder"]
        for each in client(cloud.env, "batch").describe_job_queues()["jobQueues"]
        if "market-spot" in each["jobQueueName"]
    ]
    assert [each["computeEnvironment"].rpartition("/")[2][:20] for each in spot] == ["demo-local-cpu-spot-"]
    assert [*project.descriptor()["queues"]["cpu"]["aws"]["markets"]] == ["spot"]
    code, output = ops_queue(project, "set", "cpu", "images.named=registry://embedder:1.0.0")
    assert (code, "keeps it with its images" in output) == (0, True), output

    # The key alone does not lift anything yet: the preview stops, and nothing is half gone.
    allow("replace")
    path = project.folder / "stacks" / "Pulumi.demo-aws.yaml"
    before = path.read_text()
    code, output = ops_queue(project, "remove", "nightly", "--up")
    assert code == 1, output
    assert "demo-local-nightly-queue is protected. To give it up, set tidemill:allow: [replace]" in output
    assert there() == ({*worker, "preprocess", "digest"}, 3)
    path.write_text(before)

    # The market's job queue is there, so this leaves it alone; below it goes with the key.
    assert not [step for step in project.up().ok().plan if "market" in step]
    with project.config() as config:
        del config[QUEUE]["cpu"]["per_job"]
    code, output = ops_queue(project, "remove", "nightly", "--up")
    assert code == 0, output
    assert there() == ({*worker, "preprocess", "digest", "embedder"}, 1)
    allow()
    project.up().ok()
    assert project.up("--expect-no-changes").ok().plan == []


def test_destroy_stops_while_purge_is_not_allowed_and_names_the_key(project, cloud):
    there = inventory(cloud.env)
    # Also without the preview that would have stopped it: unprotected resources would be gone by then.
    for run in (project.run("destroy", "--preview-only").refused(), project.destroy().refused()):
        assert "protected" in run.text
        assert "tidemill:allow" in run.text
    assert inventory(cloud.env) == there


def test_with_purge_a_plain_destroy_leaves_nothing(project, cloud, before):
    bucket = project.descriptor()["store"].removeprefix("s3://")
    client(cloud.env, "s3").put_object(Bucket=bucket, Key="out/tiles-1/0/result.json", Body=b"{}")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
    run = project.up().ok()
    assert not any("delete" in step.op or "replace" in step.op for step in run.steps)
    listed = project.run("destroy", "--preview-only", events=True).ok().steps
    assert {step.op for step in listed} == {"delete"}
    assert len(listed) == len(project.resources())
    project.destroy().ok()
    assert project.resources() == []
    assert inventory(cloud.env) == before
