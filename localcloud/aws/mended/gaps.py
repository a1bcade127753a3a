"""Fixes, inside moto's process, for what moto lacks or gets wrong and our stacks need."""

from __future__ import annotations

import functools
from ipaddress import IPv4Network
from typing import Any

from moto import backends
from moto.core import responses
from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.responses import EC2Response
from moto.ec2.utils import EC2_RESOURCE_TO_PREFIX, random_id
from moto.logs.metric_filters import MetricFilters
from moto.s3.models import FakeDeleteMarker
from moto.s3.responses import S3Response
from moto.servicequotas.models import ServiceQuotasBackend

from localcloud.aws.mended.method import method

EC2_RESOURCE_TO_PREFIX["placement-group"] = "pg"
# Lets a bucket be emptied whose last entry is a delete marker.
FakeDeleteMarker.dispose = lambda self, garbage=False: None  # type: ignore[attr-defined]
_delete_route = EC2Backend.delete_route
_delete_nat_gateway = EC2Backend.delete_nat_gateway
_add_filter = MetricFilters.add_filter
_create_vpc = EC2Response.create_vpc
_register_image = EC2Response.register_image
_get_replication = S3Response.get_bucket_replication
_get_quota = ServiceQuotasBackend.get_service_quota
VCPU_QUOTAS = dict.fromkeys(("L-34B43A08", "L-3819A6DF", "L-7212CCBC", "L-1216C47A", "L-DB2E81BA", "L-417A185B"), 640.0)
"""The quota of an account that requested more than the few vCPUs of a new one."""


@method(S3Response, "get_bucket_replication")
def _whole_replication(self: S3Response) -> Any:
    """Answer the rules whole; moto leaves out which objects they copy, and that they select encrypted ones."""
    _get_replication(self)  # refuses a bucket without them
    kept = self.backend.get_bucket_replication(self.bucket_name) or {}
    whole = {"Role": kept["Role"], "Rules": kept["Rule"]}
    return self.serialized(ActionResult({"ReplicationConfiguration": whole}))


@method(ServiceQuotasBackend, "get_service_quota")
def _vcpu_quota(self: ServiceQuotasBackend, service_code: str, quota_code: str) -> dict[str, Any]:
    """Answer vCPU quotas; moto knows only the quotas of VPCs."""
    if service_code == "ec2" and quota_code in VCPU_QUOTAS:
        return {"ServiceCode": "ec2", "QuotaCode": quota_code, "Value": VCPU_QUOTAS[quota_code], "Unit": "None"}
    return _get_quota(self, service_code, quota_code)


@method(MetricFilters, "add_filter")
def _replace_filter(self: MetricFilters, filter_name: str, pattern: str, group: str, transformations: Any) -> None:
    """Replace a metric filter of the same name in a group, where moto keeps both."""
    self.delete_filter(filter_name, group)
    _add_filter(self, filter_name, pattern, group, transformations)


@method(EC2Response, "create_vpc")
def _create_vpc_of_a_pool(self: EC2Response) -> Any:
    """Take a VPC's range from a pool, which is 172.16.0.0/12 for every pool's name: its first free part."""
    if not self._get_param("Ipv4IpamPoolId"):
        return _create_vpc(self)
    length = int(self._get_param("Ipv4NetmaskLength"))
    taken = [IPv4Network(vpc.cidr_block) for vpc in self.ec2_backend.vpcs.values()]
    parts = IPv4Network("172.16.0.0/12").subnets(new_prefix=length)
    free = next(part for part in parts if not any(part.overlaps(each) for each in taken))
    return ActionResult({"Vpc": self.ec2_backend.create_vpc(str(free), tags=_tags(self))})


def _tags(response: EC2Response) -> list[dict[str, str]]:
    return [tag for each in response._get_param("TagSpecifications", []) for tag in each.get("Tags", [])]


@method(EC2Backend, "delete_route")
def _delete_route_if_there(self: EC2Backend, route_table_id: str, cidr: Any = None, *rest: Any) -> Any:
    """Ignore a missing route: moto's ModifyVpcEndpoint adds none to a new table, but its deletion expects one."""
    if (
        cidr
        and cidr.startswith("pl-")
        and f"{route_table_id}~{cidr}" not in self.get_route_table(route_table_id)._routes
    ):
        return None
    return _delete_route(self, route_table_id, cidr, *rest)


@method(EC2Backend, "delete_nat_gateway")
def _delete_gateway_and_interface(self: EC2Backend, nat_gateway_id: str) -> Any:
    """Delete a NAT gateway's network interface and disassociate its address; moto does neither."""
    gateway = _delete_nat_gateway(self, nat_gateway_id)
    for address in self.describe_addresses():
        if address.eni is gateway._eni:
            address.eni = address.association_id = None  # type: ignore[assignment]
    self.enis.pop(gateway._eni.id, None)
    return gateway


def _groups(response: EC2Response) -> dict[str, dict[str, Any]]:
    """The placement groups of a backend by name."""
    return response.ec2_backend.__dict__.setdefault("localcloud_placement_groups", {})


def _named(response: EC2Response, name: str) -> dict[str, Any]:
    if name not in _groups(response):
        raise EC2ClientError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
    return _groups(response)[name]


@method(EC2Response, "create_placement_group")
def _create(response: EC2Response) -> ActionResult:
    name = response._get_param("GroupName")
    if name in _groups(response):
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    made = {"GroupName": name, "State": "available", "GroupId": random_id("pg")}
    given = {key: response._get_param(key) for key in ("Strategy", "PartitionCount", "SpreadLevel")}
    made |= {key: value for key, value in given.items() if value is not None}
    tags = response._parse_tag_specification("placement-group").get("placement-group", {})
    _groups(response)[name] = made
    response.ec2_backend.tags[made["GroupId"]].update(tags)
    return ActionResult({"PlacementGroup": _tagged(response, made)})


def _tagged(response: EC2Response, group: dict[str, Any]) -> dict[str, Any]:
    tags = response.ec2_backend.tags[group["GroupId"]]
    return group | {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


@method(EC2Response, "describe_placement_groups")
def _describe(response: EC2Response) -> ActionResult:
    names = response._get_param("GroupNames", []) or list(_groups(response))
    return ActionResult({"PlacementGroups": [_tagged(response, _named(response, name)) for name in names]})


@method(EC2Response, "delete_placement_group")
def _delete(response: EC2Response) -> ActionResult:
    name = _named(response, response._get_param("GroupName"))["GroupName"]
    del _groups(response)[name]
    return ActionResult({})


@method(EC2Response, "register_image")
def _register(response: EC2Response) -> ActionResult:
    """Register a machine image for an architecture and with a root device, which moto drops."""
    answer = _register_image(response)
    image = response.ec2_backend.amis[answer._result["ImageId"]]  # type: ignore[index]
    image.architecture = response._get_param("Architecture", image.architecture)
    image.root_device_name = response._get_param("RootDeviceName", image.root_device_name)
    return answer


def remember() -> None:
    """Keep what moto reads again for each request: its folder, and the methods of its classes, which are final."""
    names = frozenset(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: names
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)  # type: ignore[attr-defined]
