"""Prices of a region from AWS's public files and, with a login, from its Spot price history and its offerings.

The login needs `ec2:DescribeSpotPriceHistory` and `ec2:DescribeInstanceTypeOfferings`, which cost nothing.
Sources: `ops.prices.price_list`, `ops.prices.spot_page`, `ops.prices.advisor`, https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html,
and https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from components import machines
from ops.clouds.aws_refusals import REFUSALS
from ops.prices import pages, price_list
from ops.prices.advisor import Feed
from ops.prices.pages import ExpiredTokenError, Page, Pages
from ops.prices.price_list import Row
from ops.prices.region import INTERRUPTION, OFFERINGS, ON_DEMAND, SERVICES, SPOT, Answer, RefusedError, today, why
from ops.prices.spot_page import Page as SpotPage
from tidemill.machines import table as machine_table

SPOT_DAYS = 30
_REFUSALS = (
    *(*REFUSALS, OSError, HTTPException, ValueError, KeyError, TypeError, AttributeError),
    ExpiredTokenError,
)
_TYPES_A_REQUEST = 50
_EXPIRED = ("ExpiredNextToken", "Invalid")
"""How codes begin with which an API refuses a token, or a token with another question than its own."""
_CONFIG = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 5, "mode": "standard"})

_COMPUTE = {
    "Operating System": "Linux",
    "Tenancy": "Shared",
    "Pre Installed S/W": "NA",
    "CapacityStatus": "Used",
    "operation": "RunInstances",
    "MarketOption": "OnDemand",
    "License Model": "No License required",
    "Unit": "Hrs",
}
"""The rows of EC2's list that are machines as queues start them."""
_SERVICES: dict[str, tuple[str, str]] = {
    "disk_gib_month": ("AmazonEC2", "EBS:VolumeUsage.gp3"),
    "interface_endpoint_hour": ("AmazonVPC", "VpcEndpoint-Hours"),
    "kms_key_month": ("awskms", "KMS-Keys"),
    "nat_gateway_hour": ("AmazonEC2", "NatGateway-Hours"),
    "public_ipv4_hour": ("AmazonVPC", "PublicIPv4:InUseAddress"),
}
"""Our name to service code and suffix of the usage type, whose prefix names the region."""
_COLUMNS = ("SKU", "usageType", "PricePerUnit")


class Aws:
    """Asks AWS, region by region.

    Args:
        session: boto3's; None for the environment's.
        feed: The Spot Instance Advisor's; read once.
        folder: Where pages and rows wait for the rest of their listing.
        spot_page: The file behind the page of Spot prices; read once, and only without a login.
        open_list: Opens a file of the price list.
    """

    def __init__(
        self,
        session: Any = None,
        feed: Feed | None = None,
        folder: Path | None = None,
        spot_page: SpotPage | None = None,
        open_list: price_list.Open = price_list.download,
    ) -> None:
        self._session, self._feed = session or boto3.Session(), feed or Feed()
        self._folder = (folder or pages.FOLDER) / "aws"
        self._spot_page, self._open = spot_page or SpotPage(), open_list

    def check(self, parts: Collection[str]) -> str | None:
        """Say what is not asked for without a login; None with one.

        Raises:
            RefusedError: All parts need a login, and there is none.
        """
        if self._login:
            return None
        if {*parts} == {OFFERINGS}:
            raise RefusedError("there are no AWS credentials, which `offerings` needs")
        return "no AWS login: Spot prices are of the public page, and offerings stay as they are"

    @property
    def _login(self) -> bool:
        return self._session.get_credentials() is not None

    def regions(self) -> list[str]:
        """Every commercial region, from botocore's own list; it is as new as botocore."""
        return sorted(self._session.get_available_regions("ec2", partition_name="aws"))

    def ask(self, region: str, parts: Collection[str]) -> list[Answer]:
        """Ask AWS for some parts of a region. A refused part says why and does not affect the others."""
        calls: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
            OFFERINGS: ("EC2 DescribeInstanceTypeOfferings", self._offerings),
            ON_DEMAND: (price_list.SOURCE, self._on_demand),
            SPOT: (f"EC2 DescribeSpotPriceHistory, {SPOT_DAYS} days, all zones", self._spot),
            SERVICES: (price_list.SOURCE, self._services),
            INTERRUPTION: (self._feed.source, self._feed.percent),
        }
        if not self._login:
            del calls[OFFERINGS]
            calls[SPOT] = (self._spot_page.source, self._spot_page.usd)
        return [self._answer(part, region, *calls[part]) for part in calls if part in parts]

    def forget(self, region: str, part: str) -> None:
        """Delete what was kept for a resume: the part is in the table."""
        # Machines and services are read from the same file.
        for name in {code for code, _ in _SERVICES.values()} if part == SERVICES else (part,):
            Pages(self._folder / region / name).forget()

    def _answer(self, part: str, region: str, source: str, asked: Callable[[str], dict[str, Any]]) -> Answer:
        try:
            values = asked(region)
        except _REFUSALS as error:
            return Answer(part, source, refused=why(error))
        # The price list and the feed have all types; those that no queue may start yet are kept too.
        names = _SERVICES if part == SERVICES else [machine.type for machine in machine_table("aws").types]
        wanted = _SERVICES if part == SERVICES else _startable()
        kept = {name: values[name] for name in names if name in values}
        missing = [name for name in wanted if name not in values]
        dated = {INTERRUPTION: self._feed, **({} if self._login else {SPOT: self._spot_page})}
        return Answer(part, source, kept, missing, as_of=dated[part].as_of if part in dated else today())

    def _offerings(self, region: str) -> dict[str, list[str]]:
        """Ids of the zones that have a type; none for a type that the region does not have."""
        client = self._session.client("ec2", region_name=region, config=_CONFIG)

        def ask(token: str) -> Page:
            page = _asked(client.describe_instance_type_offerings, token, LocationType="availability-zone-id")
            return zones_of(page["InstanceTypeOfferings"]), page.get("NextToken") or ""

        rows = Pages(self._folder / region / OFFERINGS).rows(ask)
        return zones_by_type(rows) if rows else {}

    def _on_demand(self, region: str) -> dict[str, float]:
        """USD per hour by type; the dearest if the list has several."""
        usd: dict[str, float] = {}
        for what, kind, _, price in self._listed(region, "AmazonEC2"):
            if what == ON_DEMAND:
                usd[kind] = max(price, usd.get(kind, 0.0))
        return usd

    def _services(self, region: str) -> dict[str, float]:
        """USD by our service names; a service with several prices is left out."""
        usd_by_name: dict[str, float] = {}
        for name, (code, _) in _SERVICES.items():
            # Lower tiers are free amounts or volume discounts.
            by_sku: dict[str, float] = {}
            for what, kind, sku, price in self._listed(region, code):
                if (what, kind) == (SERVICES, name):
                    by_sku[sku] = max(price, by_sku.get(sku, 0.0))
            prices = set(by_sku.values())
            if len(prices) == 1:
                usd_by_name[name] = prices.pop()
        return usd_by_name

    def _listed(self, region: str, code: str) -> list[Any]:
        """The rows of a service's list that the table needs: machine or service, its name, SKU and price."""
        columns = [*_COLUMNS, *(["Instance Type", *_COMPUTE] if code == "AmazonEC2" else ())]

        def ask(token: str) -> Page:
            found = (_needed(code, row) for row in price_list.rows(code, region, columns, self._open))
            return [row for row in found if row and row[-1] > 0], ""

        return Pages(self._folder / region / code).rows(ask)

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


def _needed(code: str, row: Row) -> list[Any] | None:
    usage, price = row["usageType"], float(row["PricePerUnit"])
    if code == "AmazonEC2" and all(row[column] == value for column, value in _COMPUTE.items()):
        return [ON_DEMAND, row["Instance Type"], row["SKU"], price]
    for name, (wanted, suffix) in _SERVICES.items():
        if code == wanted and (usage == suffix or usage.endswith(f"-{suffix}")):
            return [SERVICES, name, row["SKU"], price]
    return None


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
