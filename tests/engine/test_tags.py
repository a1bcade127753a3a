"""A company's tags under the real engine: they come, change and go without replacing what holds data or runs jobs.

Localcloud starts no EC2 instance for Batch, so the machines' tags are read from the version of the launch template that
the compute environment names; a real account tells whether Batch puts them on (docs/first-account.md).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from localcloud.aws.iam import Query, refusal
from localcloud.cloud import GcpCloud
from tests.engine.google import Google
from tests.engine.inventory import client
from tests.harness import Project, Run

TEMPLATES = "compute/v1/projects/{project}/regions/us-central1/instanceTemplates"
GROUPS = "compute/v1/projects/{project}/regions/us-central1/instanceGroupManagers"
RUN = "ec2:RunInstances"
DEMANDED = ("instance", "volume", "network-interface")
# As the organization of a company would write it.
GUARDRAIL = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "*", "Resource": "*"},
        {
            "Effect": "Deny",
            "Action": RUN,
            "Resource": [f"arn:aws:ec2:*:*:{kind}/*" for kind in DEMANDED],
            "Condition": {"Null": {"aws:RequestTag/cost-center": "true"}},
        },
    ],
}


def lost(run: Run) -> set[str]:
    """Types of what an update deletes or replaces."""
    return {step.kind.rpartition(":")[2] for step in run.steps if "replace" in step.op or "delete" in step.op}


@pytest.fixture(scope="module")
def project(new_project: Any) -> Project:
    project = new_project("demo-aws")
    project.up().ok()
    return project


def tag(project: Project, **keys: Any) -> Run:
    """Preview and bring up the stack with `tidemill:` keys, and return the preview."""
    with project.config() as config:
        for key in ("tags", "environment_tags"):
            config.pop(f"tidemill:{key}", None)
        config.update({f"tidemill:{key}": value for key, value in keys.items()})
    preview = project.preview().ok()
    project.up().ok()
    return preview


def machines(project: Project) -> dict[str, dict[str, str]]:
    """Tags that the queue's compute environment asks for, by kind of resource."""
    (environment,) = project.resources("ComputeEnvironment")
    found = environment["outputs"]["computeResources"]["launchTemplate"]
    ec2 = client(project.env, "ec2")
    answer = ec2.describe_launch_template_versions(
        LaunchTemplateId=found["launchTemplateId"], Versions=[found["version"]]
    )
    given = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]["TagSpecifications"]
    return {each["ResourceType"]: {one["Key"]: one["Value"] for one in each["Tags"]} for each in given}


def refused(tags: dict[str, dict[str, str]]) -> list[str]:
    """Kinds that the organization's guardrail keeps from being made with these tags."""
    asked = {
        kind: Query(
            RUN,
            f"arn:aws:ec2:us-west-2:123456789012:{kind}/*",
            context={f"aws:requesttag/{key.lower()}": value for key, value in tags.get(kind, {}).items()},
        )
        for kind in DEMANDED
    }
    return [kind for kind, query in asked.items() if refusal(query, [GUARDRAIL])]


def test_without_tags_an_organization_would_refuse_the_machines(project: Project) -> None:
    assert refused(machines(project)) == list(DEMANDED)


def test_tags_come_in_place_and_satisfy_it(project: Project) -> None:
    assert lost(tag(project, tags={"cost-center": "4711"})) == set()
    found = machines(project)
    assert refused(found) == []
    assert {each["cost-center"] for each in found.values()} == {"4711"}


def test_a_value_changes_in_place(project: Project) -> None:
    preview = tag(project, tags={"cost-center": "4712"})
    assert lost(preview) == set()
    assert {step.op for step in preview.steps} <= {"update", "same"}
    assert {each["cost-center"] for each in machines(project).values()} == {"4712"}


def test_an_environments_tags_come_from_the_project_and_numbers_stay_text(project: Project) -> None:
    file = project.folder / "Pulumi.yaml"
    text = file.read_text()
    settings = yaml.safe_load(text)
    of = {"local": {"aws": {"cost-center": "0815", "owner": "platform"}}, "prod": {"aws": {"never": "1"}}}
    settings["config"]["tidemill:environment_tags"]["default"] = of
    file.unlink()  # a link into the checkout
    # As JSON: PyYAML writes 0815 without quotes, which the engine reads as a number.
    file.write_text(json.dumps(settings))
    try:
        assert lost(tag(project, tags={"owner": "vision"})) == set()
        wanted = {"cost-center": "0815", "owner": "vision"}.items()
        assert all(wanted <= each.items() for each in machines(project).values())
        assert "never" not in machines(project)["instance"]
    finally:
        file.write_text(text)


def test_they_go_in_place_too_and_leave_no_change(project: Project) -> None:
    assert lost(tag(project)) == set()
    assert refused(machines(project)) == list(DEMANDED)
    assert [str(step) for step in project.preview().ok().steps] == []


def test_a_wrong_tag_stops_the_preview_with_one_line(project: Project) -> None:
    with project.config() as config:
        config["tidemill:tags"] = {"aws:owner": "a"}
    run = project.preview()
    assert run.code != 0
    assert [line for line in run.errors if 'tidemill:tags."aws:owner"' in line and "AWS keeps for itself" in line]
    with project.config() as config:
        del config["tidemill:tags"]


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Google]:
    with GcpCloud(tmp_path_factory.mktemp("localcloud")) as running:
        running.control("scheduler/pause", paused=True)
        yield Google(running)


def test_on_gcp_only_the_template_is_made_anew_and_new_machines_get_the_labels(
    google: Google, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = Project(tmp_path_factory.mktemp("demo-gcp"), google.cloud.env, "demo-gcp")
    with project.config() as config:
        config["gcp:project"] = google.project
        for key in ("data", "access"):
            del config[f"tidemill:{key}"]
    project.up().ok()
    assert lost(tag(project, tags={"cost-center": "4711"})) <= {"RegionInstanceTemplate"}
    (group,) = google.call("compute", "GET", GROUPS)["items"]
    used = {each["instanceTemplate"].rpartition("/")[2] for each in group["versions"]}
    (template,) = [each for each in google.call("compute", "GET", TEMPLATES)["items"] if each["name"] in used]
    properties = template["properties"]
    assert properties["labels"]["cost-center"] == "4711"
    assert {each["initializeParams"]["labels"]["cost-center"] for each in properties["disks"]} == {"4711"}
    # Machines that run keep what they have until they leave.
    assert group["updatePolicy"]["type"] == "OPPORTUNISTIC"
    assert lost(tag(project)) <= {"RegionInstanceTemplate"}
    assert json.dumps(google.call("compute", "GET", TEMPLATES)["items"]).count("cost-center") == 0
