"""Stacks in China and in GovCloud. Which names are right there, only an account can tell: docs/cloud-facts.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs
from components.aws.ci.ci import AwsCi, AwsCiArgs
from components.config import ConfigError, from_file
from tests.components.recording import Recorder, run_with
from tests.components.stacks import AWS_STACKS, run_program, settings

CHINA, GOV = "cn-north-1", "us-gov-west-1"
SUFFIX = {CHINA: "amazonaws.com.cn", GOV: "amazonaws.com"}
PARTITION = {CHINA: "aws-cn", GOV: "aws-us-gov"}
EVERYWHERE = {"ecs-tasks", "firehose", "cloudwatch", "events", "sts", "batch", "spot", "backup", "elasticfilesystem",
              "vpc-flow-logs", "s3", "lambda", "scheduler"}  # fmt: skip
"""Services with one name in policies of all partitions."""


def recorder(region: str) -> Recorder:
    zones = [f"{region}{letter}" for letter in "abcd"]
    return Recorder(region=region, partition=(PARTITION[region], SUFFIX[region]), zones=zones)


def moved(stack: str, region: str) -> dict[str, Any]:
    """A committed stack file for another region, whose ARNs are those of its partition."""
    text = json.dumps(settings(stack)).replace("us-west-2", region).replace("arn:aws:", f"arn:{PARTITION[region]}:")
    values = json.loads(text) | {"aws:region": region}
    values.pop("tidemill:budget", None)
    return values


def wrong(made: Recorder, region: str) -> list[str]:
    """Inputs with an ARN of another partition, or a name of AWS that does not end as the partition's do."""
    found = []
    for resource in made.resources:
        text = json.dumps(resource.inputs, default=str)
        hosts = re.findall(r"([a-z0-9.*-]+)\.(amazonaws\.com(?:\.cn)?)(?![a-z.])", text)
        hosts = [(host, suffix) for host, suffix in hosts if host not in EVERYWHERE]
        if "arn:aws:" in text or any(suffix != SUFFIX[region] for _, suffix in hosts):
            found.append(f"{resource.name}: {hosts}")
    return found


@pytest.mark.parametrize("region", [CHINA, GOV])
@pytest.mark.parametrize("stack", AWS_STACKS)
def test_every_name_of_a_stack_is_its_partitions(stack: str, region: str):
    made = run_program(moved(stack, region), recorder=recorder(region))
    assert len(made.resources) > 35
    assert wrong(made, region) == []


@pytest.mark.parametrize("region", [CHINA, GOV])
def test_names_of_what_stacks_do_not_have_by_default(region: str):
    key = f"arn:{PARTITION[region]}:kms:{region}:123456789012:key/0a"
    more = {
        "tidemill:network": {"create": {"egress": "endpoints"}},
        "tidemill:logs": {"archive": "bucket", "kms_key": "create"},
        "tidemill:store": {"kms_key": "create"},
        "tidemill:data": {"read": ["s3://raw-images"], "kms_keys": [key]},
        "tidemill:file_systems": {"shared": {}},
        "tidemill:monitoring": {"notify": ["a@example.com"], "dashboard": True},
        "tidemill:access": {"submitters": [f"arn:{PARTITION[region]}:iam::123456789012:root"]},
        "tidemill:permission_boundary": f"arn:{PARTITION[region]}:iam::123456789012:policy/boundary",
    }
    assert wrong(run_program(moved("vision-dev", region) | more, recorder=recorder(region)), region) == []


@pytest.mark.parametrize("region", [CHINA, GOV])
def test_names_of_ci_and_bootstrap(region: str):
    def program() -> None:
        AwsBootstrap("account", AwsBootstrapArgs(replica=region))
        arn = f"arn:{PARTITION[region]}"
        AwsCi(
            "ci",
            AwsCiArgs(
                repository="acme/platform", environments=["dev", "prod"],
                state_arn=f"{arn}:s3:::state", key_arn=f"{arn}:kms:{region}:123456789012:key/0a",
            ),
        )  # fmt: skip

    assert wrong(run_with(recorder(region), program), region) == []


def test_names_that_differ_in_china():
    values = moved("vision-dev", CHINA) | {"tidemill:network": {"create": {"egress": "endpoints"}}}
    made = run_program(values | {"tidemill:logs": {"archive": "bucket"}}, recorder=recorder(CHINA))
    endpoints = {made.inputs["serviceName"] for made in made.of("ec2.VpcEndpoint")}
    assert {f"cn.com.amazonaws.{CHINA}.ecr.api", f"com.amazonaws.{CHINA}.ecs", f"com.amazonaws.{CHINA}.s3"} < endpoints

    def trusted(role: str) -> str:
        return made.document_of(role, "assumeRolePolicy")[0]["Principal"]["Service"]

    assert trusted("vision-dev-identity-instance") == "ec2.amazonaws.com.cn"
    assert trusted("vision-dev-identity-job") == "ecs-tasks.amazonaws.com"
    assert trusted("vision-dev-logs-archive-logs") == f"logs.{CHINA}.amazonaws.com.cn"


def test_a_key_whose_service_the_region_lacks_is_named(tmp_path: Path):
    path = tmp_path / "Pulumi.vision-dev.yaml"
    values = moved("vision-dev", GOV) | {"tidemill:budget": {"monthly_usd": 5, "notify": ["a@example.com"]}}
    path.write_text(json.dumps({"config": values}))
    with pytest.raises(ConfigError, match=r"^tidemill:budget: .* nothing in us-gov-west-1.*standard account"):
        from_file(path)
