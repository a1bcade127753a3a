"""The functions (invokes) that our programs call."""

from __future__ import annotations

from functools import partial
from typing import Any

from botocore import xform_name

from localcloud.provider.convert import RefusedError, tag_map
from localcloud.provider.invokes import look_up

from .clients import Clients

ZONE_KEYS = ("filters", "state", "excludeNames", "excludeZoneIds", "allAvailabilityZones", "region")


def _identity(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    answer = clients.get("sts").get_caller_identity()
    account = answer["Account"]
    return {"id": account, "accountId": account, "arn": answer["Arn"], "userId": answer["UserId"]}


def _partition(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    name = clients.get("sts").meta.partition
    return {"id": name, "partition": name, "dnsSuffix": "amazonaws.com", "reverseDnsPrefix": "com.amazonaws"}


def _region(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    name = args.get("region") or args.get("name") or clients.region
    answer = {"id": name, "name": name, "region": name, "endpoint": f"ec2.{name}.amazonaws.com"}
    return {**answer, "description": name}


def _filters(args: dict[str, Any]) -> list[dict[str, Any]]:
    filters = [{"Name": item["name"], "Values": item["values"]} for item in args.get("filters") or []]
    filters += [{"Name": f"tag:{key}", "Values": [value]} for key, value in (args.get("tags") or {}).items()]
    simple = {"vpcId": "vpc-id", "availabilityZone": "availability-zone", "cidrBlock": "cidr-block", "state": "state"}
    return filters + [{"Name": name, "Values": [args[key]]} for key, name in simple.items() if key in args]


def _zones(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    zones = clients.get("ec2", args.get("region")).describe_availability_zones(Filters=_filters(args))[
        "AvailabilityZones"
    ]
    zones = [z for z in zones if z["ZoneName"] not in args.get("excludeNames", [])]
    zones = sorted((z for z in zones if z["ZoneId"] not in args.get("excludeZoneIds", [])), key=lambda z: z["ZoneName"])
    names, ids = [z["ZoneName"] for z in zones], [z["ZoneId"] for z in zones]
    region = args.get("region") or clients.region
    return {"id": region, "region": region, "names": names, "zoneIds": ids, "groupNames": [region]}


def _subnets(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    found = clients.get("ec2", args.get("region")).describe_subnets(Filters=_filters(args))["Subnets"]
    region = args.get("region") or clients.region
    return {"id": region, "region": region, "ids": sorted(subnet["SubnetId"] for subnet in found)}


def _security_groups(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    region = args.get("region") or clients.region
    found = clients.get("ec2", region).describe_security_groups(Filters=_filters(args))["SecurityGroups"]
    ids, vpcs = [group["GroupId"] for group in found], [group["VpcId"] for group in found]
    arns = [f"arn:aws:ec2:{region}:{clients.account}:security-group/{each}" for each in ids]
    return {"id": region, "region": region, "arns": arns, "ids": ids, "vpcIds": vpcs}


def _one(kind: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    if len(items) != 1:
        raise RuntimeError(f"{kind}: expected one that matches, found {len(items)}")
    return items[0]


def _subnet(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    ids = {"SubnetIds": [args["id"]]} if "id" in args else {}
    region = args.get("region") or clients.region
    found = _one("getSubnet", clients.get("ec2", region).describe_subnets(Filters=_filters(args), **ids)["Subnets"])
    return {
        "id": found["SubnetId"], "region": region, "vpcId": found["VpcId"], "cidrBlock": found["CidrBlock"],
        "availabilityZone": found["AvailabilityZone"], "availabilityZoneId": found.get("AvailabilityZoneId", ""),
        "mapPublicIpOnLaunch": found.get("MapPublicIpOnLaunch", False), "state": found["State"],
        "arn": found.get("SubnetArn", ""), "ownerId": clients.account, "tags": tag_map(found.get("Tags")),
    }  # fmt: skip


def _vpc(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    ids = {"VpcIds": [args["id"]]} if "id" in args else {}
    region = args.get("region") or clients.region
    filters = _filters(args) + ([{"Name": "is-default", "Values": ["true"]}] if args.get("default") else [])
    found = _one("getVpc", clients.get("ec2", region).describe_vpcs(Filters=filters, **ids)["Vpcs"])
    return {
        "id": found["VpcId"], "region": region, "cidrBlock": found["CidrBlock"], "default": found["IsDefault"],
        "arn": f"arn:aws:ec2:{region}:{clients.account}:vpc/{found['VpcId']}", "state": found["State"],
        "instanceTenancy": found["InstanceTenancy"], "ownerId": clients.account, "tags": tag_map(found.get("Tags")),
    }  # fmt: skip


SUBNET_KEYS = ("id", "vpcId", "filters", "tags", "availabilityZone", "cidrBlock", "state", "region")


def _job_queue(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    found = clients.get("batch", args.get("region")).describe_job_queues(jobQueues=[args["name"]])["jobQueues"]
    if not found:
        raise RefusedError("name", f"no job queue {args['name']}")
    (queue,) = found
    answer = {"id": queue["jobQueueArn"], "arn": queue["jobQueueArn"], "name": queue["jobQueueName"]}
    return {**answer, "schedulingPolicyArn": queue.get("schedulingPolicyArn", "")}


def _offerings(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    region = args.get("region") or clients.region
    pages = clients.get("ec2", region).get_paginator("describe_instance_type_offerings")
    every = pages.paginate(LocationType=args.get("locationType", "region"), Filters=_filters(args))
    found = sorted(
        (each["InstanceType"], each["Location"], each["LocationType"])
        for page in every
        for each in page["InstanceTypeOfferings"]
    )
    types, locations, kinds = ([each[n] for each in found] for n in range(3))
    return {"id": region, "region": region, "instanceTypes": types, "locations": locations, "locationTypes": kinds}


def _ami(args: dict[str, Any], clients: Clients) -> dict[str, Any]:
    """A machine image. Source of the texts: ec2_ami_data_source.go of hashicorp/terraform-provider-aws."""
    region = args.get("region") or clients.region
    owners = {"Owners": args["owners"]} if args.get("owners") else {}
    found = clients.get("ec2", region).describe_images(Filters=_filters(args), **owners)["Images"]
    if not found:
        raise RuntimeError("Your query returned no results. Please change your search criteria and try again.")
    if len(found) > 1 and not args.get("mostRecent"):
        raise RuntimeError(
            "Your query returned more than one result. Please try a more specific search criteria, or set "
            "`most_recent` attribute to true."
        )
    image = max(found, key=lambda each: each["CreationDate"])
    mappings = [
        {
            "deviceName": each["DeviceName"], "noDevice": each.get("NoDevice", ""),
            "virtualName": each.get("VirtualName", ""),
            "ebs": {xform_name(key): str(value).lower() if value in (True, False) else str(value)
                    for key, value in each.get("Ebs", {}).items()},
        }
        for each in image.get("BlockDeviceMappings", [])
    ]  # fmt: skip
    return {
        "id": image["ImageId"], "imageId": image["ImageId"], "region": region, "name": image.get("Name", ""),
        "architecture": image.get("Architecture", ""), "platform": image.get("Platform", ""), "state": image["State"],
        "rootDeviceName": image.get("RootDeviceName", ""), "ownerId": image["OwnerId"],
        "blockDeviceMappings": mappings, "tags": tag_map(image.get("Tags")),
    }  # fmt: skip


FUNCTIONS: dict[str, Any] = {
    "aws:index/getCallerIdentity:getCallerIdentity": (_identity, ()),
    "aws:index/getPartition:getPartition": (_partition, ()),
    "aws:index/getRegion:getRegion": (_region, ("region", "name", "endpoint")),
    "aws:index/getAvailabilityZones:getAvailabilityZones": (_zones, ZONE_KEYS),
    "aws:batch/getJobQueue:getJobQueue": (_job_queue, ("name", "region")),
    "aws:ec2/getAmi:getAmi": (_ami, ("filters", "owners", "mostRecent", "region")),
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": (_offerings, ("filters", "locationType", "region")),
    "aws:ec2/getSecurityGroups:getSecurityGroups": (_security_groups, ("filters", "tags", "region")),
    "aws:ec2/getSubnets:getSubnets": (_subnets, ("filters", "tags", "region")),
    "aws:ec2/getSubnet:getSubnet": (_subnet, SUBNET_KEYS),
    "aws:ec2/getVpc:getVpc": (_vpc, ("id", "default", "cidrBlock", "state", "filters", "tags", "region")),
}
invoke = partial(look_up, FUNCTIONS)
