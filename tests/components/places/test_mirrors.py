"""Mirrors in what a stack plans: references, the descriptor, and grants. Mocks prove what is asked for; what a cache of
AWS or Google answers to a first pull is not proved."""

from __future__ import annotations

import json
from typing import Any

from tests.components.recording import Made, Recorder
from tests.components.stacks import run_stack, settings

DIGEST = "@sha256:" + 64 * "a"
ECR = "123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub"
ARN = "arn:aws:ecr:us-west-2:123456789012:repository/docker-hub/library/python"
REMOTE = "us-west1-docker.pkg.dev/example-images/docker-hub"


def stack(name: str, **changes: Any) -> Recorder:
    (queue,) = settings(name)["tidemill:queues"].values()
    return run_stack(name, queues={"cpu": {**queue, "images": {"default": f"docker.io/python{DIGEST}"}}}, **changes)


def granted(made: Recorder, action: str) -> list[list[str]]:
    """The resources of an action in the roles' policies."""
    statements = [each for policy in made.of("iam.RolePolicy") for each in policy.document("policy")["Statement"]]
    return [each["Resource"] for each in statements if action in each["Action"]]


def image_described(descriptor: Made) -> dict[str, Any]:
    content = descriptor.inputs["content"]
    # The SDK marks an object's content on GCP as secret, which wraps it.
    text = content if isinstance(content, str) else content["value"]
    return json.loads(text)["queues"]["cpu"]["images"]["default"]


def planned(made: Recorder) -> list[str]:
    return sorted(json.dumps([each.name, each.inputs], default=str, sort_keys=True) for each in made.resources)


def test_machines_of_aws_pull_from_the_cache_and_may_fill_it():
    made = stack("vision-dev", mirrors={"docker.io": ECR})
    (definition,) = made.of("batch.JobDefinition")
    assert definition.document("containerProperties")["image"] == f"{ECR}/library/python{DIGEST}"
    assert [ARN] in granted(made, "ecr:BatchGetImage")
    assert granted(made, "ecr:BatchImportUpstreamImage") == [[ARN]]
    assert granted(made, "ecr:CreateRepository") == []
    described = {"ref": f"{ECR}/library/python{DIGEST}", "mirrored": True}
    assert described.items() <= image_described(made.one("s3.BucketObjectv2")).items()


def test_a_cache_that_no_image_is_in_grants_nothing():
    plain, mirrored = (stack("vision-dev", **keys) for keys in ({}, {"mirrors": {"ghcr.io": ECR}}))
    assert planned(mirrored) == planned(plain)


def test_machines_of_gcp_read_the_remote_repository_alone():
    made = stack("vision-gcp-dev", mirrors={"docker.io": REMOTE})
    (reader,) = [
        each.inputs
        for each in made.of("artifactregistry.RepositoryIamMember")
        if each.inputs.get("project") == "example-images"
    ]
    assert (reader["repository"], reader["role"]) == ("docker-hub", "roles/artifactregistry.reader")
    described = {"ref": f"{REMOTE}/library/python{DIGEST}", "mirrored": True}
    assert described.items() <= image_described(made.one("storage.BucketObject", "vision-dev-store-pipeline")).items()
    template = made.of("compute.RegionInstanceTemplate")[0].inputs["metadata"]["user-data"]
    assert f"{REMOTE}/library/python{DIGEST}" in template
