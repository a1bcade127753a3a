"""The quotas of an account on AWS, for `python -m ops quotas`."""

from collections.abc import Iterator, Mapping
from typing import Any

import boto3
import click

from components.base import team_tags
from components.config import StackConfig
from components.services.batch.quotas import (
    ADDRESSES,
    ENVIRONMENTS,
    GATEWAY_ENDPOINTS,
    INTERNET_GATEWAYS,
    JOB_QUEUES,
    VPCS,
    AwsQuotaShortage,
    Quota,
    needed,
    shortfalls,
)
from ops.clouds.aws_refusals import REFUSALS

KEYS = ("aws:region",)
_LISTED = {
    JOB_QUEUES: ("batch", "describe_job_queues", "jobQueues", {}),
    ENVIRONMENTS: ("batch", "describe_compute_environments", "computeEnvironments", {}),
    VPCS: ("ec2", "describe_vpcs", "Vpcs", {}),
    INTERNET_GATEWAYS: ("ec2", "describe_internet_gateways", "InternetGateways", {}),
    GATEWAY_ENDPOINTS: (
        "ec2",
        "describe_vpc_endpoints",
        "VpcEndpoints",
        {"Filters": [{"Name": "vpc-endpoint-type", "Values": ["Gateway"]}]},
    ),
    ADDRESSES: ("ec2", "describe_addresses", "Addresses", {}),
}
"""Service, operation, and the field of its answer, of what an account has."""


def place(settings: Mapping[str, Any]) -> str:
    return f"the account in {settings['aws:region']}"


def request(settings: Mapping[str, Any]) -> str:
    return f"https://{settings['aws:region']}.console.aws.amazon.com/servicequotas/home"


def short(settings: Mapping[str, Any], config: StackConfig) -> list[AwsQuotaShortage]:
    """The quotas of the stack's region that are too small.

    Raises:
        click.ClickException: AWS does not answer, or the login may not ask.
    """
    wanted = needed(config)
    session = boto3.Session(region_name=settings["aws:region"], profile_name=settings.get("aws:profile"))
    try:
        limits = {quota: _limit(session.client("service-quotas"), quota) for quota in wanted}
        tags = team_tags(config.team, config.environment)
        others = {quota: _others(session, quota, tags) for quota in wanted if quota in _LISTED}
    except REFUSALS as error:
        raise click.ClickException(f"the quotas could not be read: {error}") from None
    return shortfalls(wanted, limits, others)


def _limit(client: Any, quota: Quota) -> int:
    """The account's value; AWS's default where the account has none of its own."""
    if quota.fixed is not None:
        return quota.fixed
    asked = {"ServiceCode": quota.service, "QuotaCode": quota.code}
    try:
        answer = client.get_service_quota(**asked)
    except client.exceptions.NoSuchResourceException:
        answer = client.get_aws_default_service_quota(**asked)
    return int(answer["Quota"]["Value"])


def _others(session: boto3.Session, quota: Quota, tags: Mapping[str, str]) -> int:
    """How many an account has that are not this stack's, which have its tags."""
    service, operation, field, asked = _LISTED[quota]
    client = session.client(service)
    return sum(not tags.items() <= _tags(each).items() for each in _all(client, operation, field, asked))


def _all(client: Any, operation: str, field: str, asked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    pages = (
        client.get_paginator(operation).paginate(**asked)
        if client.can_paginate(operation)
        else [getattr(client, operation)(**asked)]
    )
    for page in pages:
        yield from page[field]


def _tags(resource: Mapping[str, Any]) -> dict[str, str]:
    """Tags of a resource: Batch has a mapping, EC2 a list."""
    listed = {each["Key"]: each["Value"] for each in resource.get("Tags", [])}
    return listed | dict(resource.get("tags") or {})
