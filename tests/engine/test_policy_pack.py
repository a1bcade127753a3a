"""The policy pack in the real engine: bad programs break every rule. The providers are localcloud's.

Other modules show that our own stacks obey when they preview them: test_previews.py, test_gcp_lifecycle.py.
"""

import datetime
import json

import pytest

from localcloud.cloud import GcpCloud
from ops.project import POLICY
from policy.rules import POLICIES
from tests.engine.bad_programs import AWS, GCP
from tests.harness import Project

SOON = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(30)
NAMES = [policy.name for policy in POLICIES]
REASON = "Waits for the keys of the data platform"


def preview(project, program, config, folder):
    """Preview a program with each rule's own level. Returns (rule, level) → messages."""
    pack = folder / "pack.json"
    pack.write_text("{}")
    with project.config() as own:
        own.update(config)
    with project.program(program):
        run = project.run("preview", "--policy-pack", str(POLICY), "--policy-pack-config", str(pack), events=True)
    assert run.refused().errors == [], run.text
    found: dict[tuple[str, str], list[str]] = {}
    for event in (event["policyEvent"] for event in run.events if "policyEvent" in event):
        key = event["policyName"], event["enforcementLevel"]
        found.setdefault(key, []).append(event["message"])
    assert "Traceback" not in run.text
    return found


def levels(found, rule):
    return {level for name, level in found if name == rule}


@pytest.fixture(scope="module")
def project(new_project):
    return new_project("demo-aws")


@pytest.fixture(scope="module")
def on_aws(project, tmp_path_factory):
    waivers = [
        {"rule": "aws-kms-key-rotation", "reason": REASON, "until": SOON},
        {"rule": "aws-ecr-repository-scan", "resource": "others", "reason": REASON, "until": SOON},
        {"rule": "aws-s3-bucket-closed", "reason": REASON, "until": datetime.date(2024, 1, 31)},
    ]
    config = {"aws:region": "us-east-1", "tidemill:network": {"create": {"egress": "nat"}}, "tidemill:waivers": waivers}
    return preview(project, AWS, config, tmp_path_factory.mktemp("pack"))


def test_a_bad_program_breaks_every_rule_of_aws(on_aws):
    assert {rule for rule, _ in on_aws if rule.startswith("aws-")} == {n for n in NAMES if n.startswith("aws-")}
    assert {rule for rule, level in on_aws if level == "advisory"} == {
        "any-tidemill-waiver-used",
        "aws-batch-compute-environment-price-known",
        "aws-cloudwatch-metric-alarm-exists",
        "aws-kms-key-rotation",
    }
    (said,) = on_aws["aws-batch-compute-environment-service-role", "mandatory"]
    assert "Remove service_role" in said


def test_a_waived_violation_is_shown_with_its_reason_and_stops_nothing(on_aws):
    (said,) = on_aws["aws-kms-key-rotation", "advisory"]
    assert "enableKeyRotation is off" in said
    assert f"Waived until {SOON}: {REASON}" in said
    assert levels(on_aws, "aws-kms-key-rotation") == {"advisory"}


def test_a_waiver_of_another_resource_waives_nothing_and_is_told(on_aws):
    assert levels(on_aws, "aws-ecr-repository-scan") == {"mandatory"}
    (said,) = on_aws["any-tidemill-waiver-used", "advisory"]
    assert "tidemill:waivers[1] (aws-ecr-repository-scan for others" in said


def test_a_waiver_that_has_ended_is_a_violation_and_its_rule_holds(on_aws):
    assert levels(on_aws, "aws-s3-bucket-closed") == {"mandatory"}
    (said,) = on_aws["any-tidemill-waiver-valid", "mandatory"]
    assert "until 2024-01-31) has ended" in said


def test_a_bad_program_breaks_every_rule_of_gcp(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    with GcpCloud(tmp_path / "cloud") as cloud:
        project = Project(folder, cloud.env, "demo-gcp")
        config = {"gcp:project": cloud.project, "tidemill:network": {"create": {"egress": "nat"}}}
        found = preview(project, GCP, config, tmp_path)
    assert {rule for rule, _ in found} == {name for name in NAMES if name.startswith("gcp-")}
    assert {rule for rule, level in found if level == "advisory"} == {
        "gcp-compute-autoscaler-price-known",
        "gcp-monitoring-alert-policy-exists",
    }


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"maxCpus": 0}, "aws-batch-compute-environment-cpu-cap: maxCpus: Must be greater than or equal to 1"),
        ({"maxCpu": 8}, "aws-batch-compute-environment-cpu-cap has no parameter maxCpu. Allowed: maxCpus."),
    ],
)
def test_a_wrong_parameter_is_named_with_its_rule(project, tmp_path, parameters, says):
    pack = tmp_path / "pack.json"
    pack.write_text(json.dumps({"aws-batch-compute-environment-cpu-cap": parameters}))
    run = project.run("preview", "--policy-pack", str(POLICY), "--policy-pack-config", str(pack)).refused()
    assert says in run.text
    assert "Traceback" not in run.text
