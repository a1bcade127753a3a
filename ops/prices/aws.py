"""Prices of a region from the Price List API and the Spot price history.

Needs `pricing:GetProducts` and `ec2:DescribeSpotPriceHistory`; both cost nothing.
Sources: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html and
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from components import machines
from ops.prices.region import ON_DEMAND, SERVICES, SPOT, Answer

ENDPOINTS = {"eu": "eu-central-1", "ap": "ap-south-1"}
"""Region of the Price List API by region prefix; us-east-1 for the others. Each knows the prices of all regions.
Source: https://docs.aws.amazon.com/general/latest/gr/billing.html#billing-pricing"""
SPOT_DAYS = 30
_TYPES_A_REQUEST = 50
_CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 5, "mode": "standard"})

_COMPUTE = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "operation": "RunInstances",
    "marketoption": "OnDemand",
}
_SERVICES: dict[str, tuple[str, str, dict[str, str]]] = {
    "disk_gib_month": ("AmazonEC2", "EBS:VolumeUsage.gp3", {"volumeApiName": "gp3"}),
    "interface_endpoint_hour": ("AmazonVPC", "VpcEndpoint-Hours", {}),
    "kms_key_month": ("awskms", "KMS-Keys", {}),
    "nat_gateway_hour": ("AmazonEC2", "NatGateway-Hours", {"productFamily": "NAT Gateway"}),
    "public_ipv4_hour": ("AmazonVPC", "PublicIPv4:InUseAddress", {}),
}
"""Our name to service code, suffix of the usage type (its prefix names the region), and further filters."""


def ask(region: str, session: Any = None) -> list[Answer]:
    """What AWS charges in a region. A refused part says why and does not affect the others."""
    session = session or boto3.Session()
    place = ENDPOINTS.get(region.partition("-")[0], "us-east-1")
    prices = session.client("pricing", region_name=place, config=_CONFIG)
    ec2 = session.client("ec2", region_name=region, config=_CONFIG)
    listed, seen = "AWS Price List API", f"EC2 DescribeSpotPriceHistory, {SPOT_DAYS} days, all zones"
    parts = ((ON_DEMAND, listed, _on_demand, prices), (SPOT, seen, _spot, ec2), (SERVICES, listed, _services, prices))
    answers = []
    for part, source, asked, client in parts:
        try:
            found = asked(client, region)
        except (ClientError, BotoCoreError, ValueError, KeyError) as error:
            answers.append(Answer(part, source, refused=f"{type(error).__name__}: {error}"))
            continue
        wanted = _SERVICES if part == SERVICES else machines.table()
        kept = {name: found[name] for name in wanted if name in found}
        answers.append(Answer(part, source, kept, [name for name in wanted if name not in found]))
    return answers


def _on_demand(client: Any, region: str) -> dict[str, float]:
    """USD per hour by type."""
    found: dict[str, float] = {}
    for product in _products(client, "AmazonEC2", {**_COMPUTE, "regionCode": region}):
        attributes = product["product"]["attributes"]
        price = _price(product, {"Hrs"})
        if price is not None and attributes.get("licenseModel") in (None, "No License required"):
            found[attributes["instanceType"]] = price
    return found


def _services(client: Any, region: str) -> dict[str, float]:
    """USD by our service names; a service with several prices is left out."""
    found: dict[str, float] = {}
    for name, (code, usage, filters) in _SERVICES.items():
        prices = set()
        for product in _products(client, code, {**filters, "regionCode": region}):
            said = product["product"]["attributes"].get("usagetype", "")
            if said == usage or said.endswith(f"-{usage}"):
                prices.add(_price(product, None))
        if len(prices) == 1 and (price := prices.pop()) is not None:
            found[name] = price
    return found


def _products(client: Any, code: str, wanted: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
    for page in client.get_paginator("get_products").paginate(ServiceCode=code, Filters=filters):
        yield from map(json.loads, page["PriceList"])


def _price(product: Mapping[str, Any], units: set[str] | None) -> float | None:
    """The On-Demand price of a product in USD: its only one, or the highest tier, as the others are free or volume
    discounts."""
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = [each for term in terms for each in term["priceDimensions"].values()]
    fitting = [each for each in dimensions if units is None or each["unit"] in units]
    prices = [float(each["pricePerUnit"]["USD"]) for each in fitting if "USD" in each["pricePerUnit"]]
    return max(prices, default=0.0) or None


def _spot(client: Any, region: str) -> dict[str, list[float]]:
    """The lowest and highest price of each type over the region's zones and the last days, in USD per hour."""
    now = datetime.datetime.now(datetime.UTC)
    found: dict[str, list[float]] = {}
    types = list(machines.table())
    for first in range(0, len(types), _TYPES_A_REQUEST):
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=types[first : first + _TYPES_A_REQUEST],
            ProductDescriptions=["Linux/UNIX"],
            StartTime=now - datetime.timedelta(days=SPOT_DAYS),
            EndTime=now,
        )
        for each in (entry for page in pages for entry in page["SpotPriceHistory"]):
            usd = float(each["SpotPrice"])
            low, high = found.get(each["InstanceType"], (usd, usd))
            found[each["InstanceType"]] = [min(low, usd), max(high, usd)]
    return found
