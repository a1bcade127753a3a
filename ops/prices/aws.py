"""Prices of a region from the Price List API, the Spot price history and the Spot Instance Advisor's feed.

Needs `pricing:GetProducts`, `ec2:DescribeSpotPriceHistory` and `ec2:DescribeInstanceTypeOfferings`, which cost nothing;
the feed needs no login.
Sources: https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_pricing_GetProducts.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html and
https://aws.amazon.com/ec2/spot/instance-advisor/
"""

import datetime
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from components import machines
from ops.prices import pages
from ops.prices.advisor import Feed
from ops.prices.pages import ExpiredTokenError, Page, Pages
from ops.prices.region import INTERRUPTION, OFFERINGS, ON_DEMAND, SERVICES, SPOT, Answer, RefusedError, today
from tidemill.machines import table as machine_table

ENDPOINTS = {"eu": "eu-central-1", "ap": "ap-south-1"}
"""Region of the Price List API by region prefix; us-east-1 for the others. Each knows the prices of all regions.
Source: https://docs.aws.amazon.com/general/latest/gr/billing.html#billing-pricing"""
SPOT_DAYS = 30
_TYPES_A_REQUEST = 50
_EXPIRED = ("ExpiredNextToken", "Invalid")
"""How codes begin with which an API refuses a token, or a token with another question than its own."""
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
_LISTED = "AWS Price List API"


class Aws:
    """Asks AWS, region by region.

    Args:
        session: boto3's; None for the environment's.
        feed: The Spot Instance Advisor's; read once.
        folder: Where pages wait for the rest of their listing.
    """

    def __init__(self, session: Any = None, feed: Feed | None = None, folder: Path | None = None) -> None:
        self._session, self._feed = session or boto3.Session(), feed or Feed()
        self._folder = (folder or pages.FOLDER) / "aws"

    def check(self, parts: Collection[str]) -> None:
        """Check that AWS can be asked for some parts at all.

        Raises:
            RefusedError: They need a login, and there is none.
        """
        if {*parts} - {INTERRUPTION} and self._session.get_credentials() is None:
            raise RefusedError("there are no AWS credentials; log in, or ask for `--part interruption` alone")

    def regions(self) -> list[str]:
        """Every commercial region, from botocore's own list; it is as new as botocore."""
        return sorted(self._session.get_available_regions("ec2", partition_name="aws"))

    def ask(self, region: str, parts: Collection[str]) -> list[Answer]:
        """Ask AWS for some parts of a region. A refused part says why and does not affect the others."""
        seen = f"EC2 DescribeSpotPriceHistory, {SPOT_DAYS} days, all zones"
        calls: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
            OFFERINGS: ("EC2 DescribeInstanceTypeOfferings", self._offerings),
            ON_DEMAND: (_LISTED, self._on_demand),
            SPOT: (seen, self._spot),
            SERVICES: (_LISTED, self._services),
            INTERRUPTION: (self._feed.source, self._feed.percent),
        }
        return [self._answer(part, region, *calls[part]) for part in calls if part in parts]

    def forget(self, region: str, part: str) -> None:
        """Delete what was kept for a resume: the part is in the table."""
        Pages(self._folder / region / part).forget()

    def _answer(self, part: str, region: str, source: str, asked: Callable[[str], dict[str, Any]]) -> Answer:
        try:
            values = asked(region)
        except (ClientError, BotoCoreError, OSError, ValueError, KeyError, TypeError, ExpiredTokenError) as error:
            return Answer(part, source, refused=f"{type(error).__name__}: {error}")
        # The price list and the feed have all types; those that no queue may start yet are kept too.
        names = _SERVICES if part == SERVICES else [machine.type for machine in machine_table("aws").types]
        wanted = _SERVICES if part == SERVICES else _startable()
        kept = {name: values[name] for name in names if name in values}
        missing = [name for name in wanted if name not in values]
        return Answer(part, source, kept, missing, as_of=self._feed.as_of if part == INTERRUPTION else today())

    def _offerings(self, region: str) -> dict[str, list[str]]:
        """Ids of the zones that have a type; none for a type that the region does not have."""
        client = self._session.client("ec2", region_name=region, config=_CONFIG)

        def ask(token: str) -> Page:
            page = _asked(client.describe_instance_type_offerings, token, LocationType="availability-zone-id")
            return zones_of(page["InstanceTypeOfferings"]), page.get("NextToken") or ""

        rows = Pages(self._folder / region / OFFERINGS).rows(ask)
        return zones_by_type(rows) if rows else {}

    def _on_demand(self, region: str) -> dict[str, float]:
        """USD per hour by type."""
        wanted = {**_COMPUTE, "regionCode": region}
        listing = Pages(self._folder / region / ON_DEMAND)
        return dict(listing.rows(self._products(region, "AmazonEC2", wanted, _machine)))

    def _services(self, region: str) -> dict[str, float]:
        """USD by our service names; a service with several prices is left out."""
        usd_by_name: dict[str, float] = {}
        for name, (code, usage, filters) in _SERVICES.items():
            listing = Pages(self._folder / region / SERVICES / name)
            rows = listing.rows(self._products(region, code, {**filters, "regionCode": region}, _usage))
            prices = {usd for kind, usd in rows if kind == usage or kind.endswith(f"-{usage}")}
            if len(prices) == 1 and (price := prices.pop()) is not None:
                usd_by_name[name] = price
        return usd_by_name

    def _products(
        self, region: str, code: str, wanted: Mapping[str, str], row: Callable[[Mapping[str, Any]], list[Any] | None]
    ) -> Callable[[str], Page]:
        """Asks for a page of a service's products; `row` takes what the table needs."""
        place = ENDPOINTS.get(region.partition("-")[0], "us-east-1")
        client = self._session.client("pricing", region_name=place, config=_CONFIG)
        filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]

        def ask(token: str) -> Page:
            page = _asked(client.get_products, token, ServiceCode=code, Filters=filters)
            rows = [row(json.loads(product)) for product in page["PriceList"]]
            return [each for each in rows if each], page.get("NextToken") or ""

        return ask

    def _spot(self, region: str) -> dict[str, list[float]]:
        """The lowest and highest price of each type over the region's zones and the last days, in USD per hour."""
        client = self._session.client("ec2", region_name=region, config=_CONFIG)
        # Whole days: the token of a page belongs to one question, and a resumed run has to ask the same one.
        end = datetime.datetime.combine(today(), datetime.time(), datetime.UTC)
        span = {"StartTime": end - datetime.timedelta(days=SPOT_DAYS), "EndTime": end}
        ranges: dict[str, list[float]] = {}
        for number, types in enumerate(_batches(_startable())):
            asked = {"InstanceTypes": types, "ProductDescriptions": ["Linux/UNIX"], **span}

            def ask(token: str, asked: Mapping[str, Any] = asked) -> Page:
                page = _asked(client.describe_spot_price_history, token, **asked)
                return _ranges(page["SpotPriceHistory"]), page.get("NextToken") or ""

            for kind, low, high in Pages(self._folder / region / SPOT / str(number)).rows(ask):
                least, most = ranges.get(kind, (low, high))
                ranges[kind] = [min(low, least), max(high, most)]
        return ranges


def zones_of(offerings: Iterable[Mapping[str, Any]]) -> list[Any]:
    return [[each["InstanceType"], each["Location"]] for each in offerings]


def zones_by_type(rows: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """The zones of every known type."""
    zones: dict[str, set[str]] = {}
    for kind, zone in rows:
        zones.setdefault(kind, set()).add(zone)
    return {kind: sorted(zones.get(kind, ())) for kind in (machine.type for machine in machine_table("aws").types)}


def _asked(call: Callable[..., Mapping[str, Any]], token: str, **wanted: Any) -> Mapping[str, Any]:
    """A page.

    Raises:
        ExpiredTokenError: It was named by a token that the API no longer takes.
    """
    try:
        return call(**wanted, **({"NextToken": token} if token else {}))
    except ClientError as error:
        if token and error.response["Error"]["Code"].startswith(_EXPIRED):
            raise ExpiredTokenError(str(error)) from error
        raise


def _machine(product: Mapping[str, Any]) -> list[Any] | None:
    """Type and price of a product; None where it has none, or needs a licence."""
    attributes, price = product["product"]["attributes"], _price(product, {"Hrs"})
    free = attributes.get("licenseModel") in (None, "No License required")
    return [attributes["instanceType"], price] if price is not None and free else None


def _usage(product: Mapping[str, Any]) -> list[Any]:
    return [product["product"]["attributes"].get("usagetype", ""), _price(product, None)]


def _price(product: Mapping[str, Any], units: set[str] | None) -> float | None:
    """The On-Demand price of a product in USD: its only one, or the highest tier, as the others are free or volume
    discounts."""
    terms = product.get("terms", {}).get("OnDemand", {}).values()
    dimensions = [each for term in terms for each in term["priceDimensions"].values()]
    fitting = [each for each in dimensions if units is None or each["unit"] in units]
    prices = [float(each["pricePerUnit"]["USD"]) for each in fitting if "USD" in each["pricePerUnit"]]
    return max(prices, default=0.0) or None


def _ranges(history: list[Mapping[str, Any]]) -> list[Any]:
    """Type, lowest and highest price of a page's entries."""
    ranges: dict[str, list[float]] = {}
    for price in history:
        usd = float(price["SpotPrice"])
        low, high = ranges.get(price["InstanceType"], (usd, usd))
        ranges[price["InstanceType"]] = [min(low, usd), max(high, usd)]
    return [[kind, *pair] for kind, pair in ranges.items()]


def _startable() -> list[str]:
    """The types that a queue may start, in the table's order."""
    return [machine.type for types in machines.families("aws").values() for machine in types]


def _batches(types: list[str]) -> Iterator[list[str]]:
    for first in range(0, len(types), _TYPES_A_REQUEST):
        yield types[first : first + _TYPES_A_REQUEST]


PRICES = Aws
