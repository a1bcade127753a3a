"""Policies on roles, rules of security groups and bucket policies that no state has, asked of AWS."""

from collections.abc import Iterator
from typing import Any, Protocol

import boto3
from botocore.exceptions import ClientError

from ops import engine
from ops.additions import Addition, Resource, of
from ops.clouds import aws_refusals


class Clients(Protocol):
    """Makes a client of a service, as a boto3 session does."""

    def client(self, service_name: str) -> Any:
        """One client."""
        ...


REFUSALS = aws_refusals.REFUSALS


def asked(stack: str, state: list[Resource]) -> Iterator[Addition]:
    """Additions by hand, asked of the stack's region."""
    return added(state, engine.region_of(stack, "aws"))


def added(state: list[Resource], region: str | None, clients: Clients | None = None) -> Iterator[Addition]:
    """Additions by hand to a stack's roles, security groups and buckets.

    Raises:
        REFUSALS: AWS does not answer, or the login may not ask.
    """
    session = clients or boto3.Session(region_name=region)
    iam, ec2, s3 = (session.client(name) for name in ("iam", "ec2", "s3"))
    for role in of(state, "aws:iam/role:Role"):
        yield from _policies(role, state, iam)
    for group in of(state, "aws:ec2/securityGroup:SecurityGroup"):
        yield from _rules(group, state, ec2)
    for bucket in of(state, "aws:s3/bucket:Bucket"):
        name = bucket.values.get("bucket")
        policies = {each.values.get("bucket") for each in of(state, "aws:s3/bucketPolicy:BucketPolicy")}
        if name not in policies and _has_policy(s3, name):
            yield Addition(bucket.name, "a bucket policy")


def _policies(role: Resource, state: list[Resource], iam: Any) -> Iterator[Addition]:
    name = role.values["name"]
    own = {each.values.get("name") for each in _on(state, "aws:iam/rolePolicy:RolePolicy", name)}
    own |= {each.get("name") for each in role.inputs.get("inlinePolicies") or [] if isinstance(each, dict)}
    attached = {
        each.values.get("policyArn") for each in _on(state, "aws:iam/rolePolicyAttachment:RolePolicyAttachment", name)
    }
    try:
        for page in iam.get_paginator("list_role_policies").paginate(RoleName=name):
            for policy in sorted({*page["PolicyNames"]} - own):
                yield Addition(role.name, f"the inline policy {policy}")
        for page in iam.get_paginator("list_attached_role_policies").paginate(RoleName=name):
            for policy in page["AttachedPolicies"]:
                if policy["PolicyArn"] not in attached:
                    yield Addition(role.name, f"the attached policy {policy['PolicyArn']}")
    except iam.exceptions.NoSuchEntityException:
        return  # The refresh tells that it is gone.


def _on(state: list[Resource], kind: str, role: str) -> Iterator[Resource]:
    return (each for each in of(state, kind) if each.values.get("role") == role)


def _rules(group: Resource, state: list[Resource], ec2: Any) -> Iterator[Addition]:
    own = {
        each.values.get("securityGroupRuleId") or each.values.get("id") for each in state if "ecurityGroup" in each.type
    }
    filters = [{"Name": "group-id", "Values": [str(group.values["arn"]).rpartition("/")[2]]}]
    for page in ec2.get_paginator("describe_security_group_rules").paginate(Filters=filters):
        for rule in page["SecurityGroupRules"]:
            way = "egress" if rule["IsEgress"] else "ingress"
            if rule["SecurityGroupRuleId"] in own or group.inputs.get(way):
                continue  # Rules within a group are its properties, which the refresh compares.
            yield Addition(group.name, f"the {way} rule {rule['SecurityGroupRuleId']}: {_ports(rule)}")


def _ports(rule: dict[str, Any]) -> str:
    keys = ("CidrIpv4", "CidrIpv6", "PrefixListId")
    other = next((rule[key] for key in keys if rule.get(key)), None) or rule.get("ReferencedGroupInfo", {}).get(
        "GroupId"
    )
    ports = f"{rule['IpProtocol']} {rule.get('FromPort')} to {rule.get('ToPort')}"
    return f"{'everything' if rule['IpProtocol'] == '-1' else ports}, {other}"


def _has_policy(s3: Any, bucket: Any) -> bool:
    try:
        return bool(s3.get_bucket_policy(Bucket=bucket).get("Policy"))
    except ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchBucketPolicy", "NoSuchBucket"):
            return False
        raise
