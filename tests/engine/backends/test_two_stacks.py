"""Two stacks in one VPC, each of a team with a state of its own: previews, drift, and destroy, the network last.

The second has the keys of a company with an account per team. Both are in the account of one localcloud, which takes
those keys without another login; test_ci_accounts.py has two accounts. That AWS refuses to delete a network in which
another stack has a security group, localcloud does not imitate.
"""

from __future__ import annotations

import pytest

from tests.engine.inventory import client, inventory
from tests.harness import Project


@pytest.fixture(scope="module")
def before(cloud) -> dict[str, list[str]]:
    return inventory(cloud.env)


def team(new_project, name: str, **settings: object) -> Project:
    project = new_project("demo-aws")
    with project.config() as config:
        config.update({"tidemill:team": name, "tidemill:allow": ["purge"], **settings})
    return project


def test_two_teams_share_a_network_and_leave_it_in_order(cloud, new_project, before):
    first = team(new_project, "first")
    first.up().ok()
    network = first.outputs()
    existing = {"vpc_id": network["vpc_id"], "subnet_ids": network["subnet_ids"]}
    another = {
        "aws:assumeRoles": [{"roleArn": "arn:aws:iam::123456789012:role/deployer"}],
        "aws:ignoreTags": {"keyPrefixes": ["company:"]},
    }
    second = team(new_project, "second", **another, **{"tidemill:network": {"existing": existing}})
    planned = second.run("preview", events=True).ok()
    assert not [step for step in planned.steps if step.kind.endswith((":Vpc", ":Subnet", ":NatGateway"))]
    second.up().ok()
    for project in (first, second):
        project.run("preview", "--refresh", "--expect-no-changes").ok()
    batch = client(cloud.env, "batch")
    found = batch.describe_compute_environments()["computeEnvironments"]
    assert len({subnet for each in found for subnet in each["computeResources"]["subnets"]}) == len(
        existing["subnet_ids"]
    )
    groups = [set(each["computeResources"]["securityGroupIds"]) for each in found]
    assert len(groups) == 2
    assert groups[0].isdisjoint(groups[1]), "the machines of one team are not in the other's group"

    second.destroy().ok()
    first.run("preview", "--refresh", "--expect-no-changes").ok()
    first.destroy().ok()
    assert inventory(cloud.env) == before
