"""The content of an account, from each service itself and not from Pulumi's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import boto3

# Service, operation, key of the answer, key of the name; `_is_gone` leaves out entries that count as gone.
_LISTS = [
    ("batch", "describe_compute_environments", "computeEnvironments", "computeEnvironmentName"),
    ("batch", "describe_job_queues", "jobQueues", "jobQueueName"),
    ("batch", "describe_job_definitions", "jobDefinitions", "jobDefinitionArn"),
    ("batch", "list_scheduling_policies", "schedulingPolicies", "arn"),
    ("ec2", "describe_vpcs", "Vpcs", "VpcId"),
    ("ec2", "describe_subnets", "Subnets", "SubnetId"),
    ("ec2", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    ("ec2", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ("ec2", "describe_addresses", "Addresses", "AllocationId"),
    ("ec2", "describe_route_tables", "RouteTables", "RouteTableId"),
    ("ec2", "describe_security_groups", "SecurityGroups", "GroupId"),
    ("ec2", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("ec2", "describe_placement_groups", "PlacementGroups", "GroupName"),
    ("ec2", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateName"),
    ("ec2", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    ("ecr", "describe_repositories", "repositories", "repositoryName"),
    ("s3", "list_buckets", "Buckets", "Name"),
    ("iam", "list_roles", "Roles", "RoleName"),
    ("iam", "list_policies", "Policies", "Arn"),
    ("iam", "list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
    ("iam", "list_open_id_connect_providers", "OpenIDConnectProviderList", "Arn"),
    ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    ("cloudwatch", "list_dashboards", "DashboardEntries", "DashboardName"),
    ("events", "list_rules", "Rules", "Name"),
    ("lambda", "list_functions", "Functions", "FunctionName"),
    ("scheduler", "list_schedule_groups", "ScheduleGroups", "Name"),
    ("scheduler", "list_schedules", "Schedules", "Name"),
    ("sns", "list_topics", "Topics", "TopicArn"),
    ("kms", "list_aliases", "Aliases", "AliasName"),
    ("budgets", "describe_budgets", "Budgets", "BudgetName"),
    ("firehose", "list_delivery_streams", "DeliveryStreamNames", ""),
]
_OPTIONS = {"list_policies": {"Scope": "Local"}, "describe_budgets": {"AccountId": "123456789012"}}
_LOGIN = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_GONE = {"INACTIVE", "deleted", "DELETED"}


def client(env: Mapping[str, str], service: str) -> Any:
    """A boto3 client that uses only the credentials of this environment, none of this process's own."""
    return _client(service, env["AWS_ENDPOINT_URL"], env["AWS_REGION"], tuple(env.get(name) for name in _LOGIN))


@lru_cache(64)
def _client(service: str, endpoint: str, region: str, login: tuple[str | None, ...]) -> Any:
    """To make one costs as much as dozens of requests."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=login[0],
        aws_secret_access_key=login[1],
        aws_session_token=login[2],
    )


def inventory(env: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of everything in the account by service and kind, sorted; empty kinds are left out."""
    clients: dict[str, Any] = {}
    found: dict[str, list[str]] = {}
    for service, operation, key, name in _LISTS:
        ask: Callable[..., dict[str, Any]] = getattr(clients.setdefault(service, client(env, service)), operation)
        options = _OPTIONS.get(operation, {})
        entries: Iterable[Any] = (entry for entry in ask(**options)[key] if not _is_gone(entry))
        names = sorted(entry if isinstance(entry, str) else entry[name] for entry in entries)
        if names:
            found[f"{service} {key}"] = names
    kms = clients["kms"]
    keys = [kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"] for key in kms.list_keys()["Keys"]]
    standing = sorted(key["KeyId"] for key in keys if key["KeyState"] != "PendingDeletion")
    return found | ({"kms Keys": standing} if standing else {})


def _is_gone(entry: Any) -> bool:
    return isinstance(entry, dict) and (entry.get("status") in _GONE or entry.get("State") in _GONE)
