"""Reads AWS's capacity: placement scores, Spot prices, offerings and quotas of vCPUs.

Sources: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-placement-score.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetSpotPlacementScores.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html and
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html
"""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill import prices
from tidemill.advice.cache import Cache
from tidemill.advice.calls import SECONDS, Call, Reply, ask_all, distinct
from tidemill.advice.history import QUARTER, WEEK, PricePoint, ranged
from tidemill.advice.sources import CpuQuota, LiveAnswer, PlacementScore, Question, SpotPrice, TypeOffering
from tidemill.clouds.aws.refusals import aws_refusals
from tidemill.clouds.aws.session import default_session
from tidemill.machines.quotas import QUOTAS, kind_of

if TYPE_CHECKING:
    import boto3

SCORES = "ec2:GetSpotPlacementScores"
PRICES = "ec2:DescribeSpotPriceHistory"
OFFERINGS = "ec2:DescribeInstanceTypeOfferings"
ZONES = "ec2:DescribeAvailabilityZones"
QUOTA = "servicequotas:GetServiceQuota"

MOST_REGIONS, MOST_TYPES = 10, 100
"""Of one request. AWS takes a thousand types for a score."""
MINUTES, HOUR, DAY = 600.0, 3600.0, 86_400.0
SAMPLES = (44, 89)
"""Days before the last midnight on which a quarter's prices are looked at. AWS keeps 90 days; all changes of forty
types in a quarter would be dozens of pages."""

_PAGES = {"now": 3, "week": 1, "day": 1}
_PAGE = 1000
_LINUX = "Linux/UNIX"
_ATTEMPTS, _CONNECT_SECONDS, _READ_SECONDS = 2, 3, 8


class AwsSource:
    """Asks AWS with the caller's own login.

    Args:
        region: Of the pipeline. There scores are asked for, about other regions too.
        account: Of the pipeline, or empty. Answers that are kept belong to it, or to the login of the environment.
        session: boto3's; None for the default profile's.
        cache: Where answers are kept for a while.
        seconds: How long the calls of a question together may take.
    """

    def __init__(
        self,
        region: str,
        account: str,
        session: boto3.Session | None = None,
        *,
        cache: Cache | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._region = region
        self._account = account or os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_PROFILE", "")
        self._cache, self._seconds = cache or Cache(), seconds
        self._session, self._clients, self._lock = session, dict[tuple[str, str], Any](), threading.Lock()
        self._login: bool | None = None

    def ask(self, question: Question) -> LiveAnswer:
        """See `LiveSource.ask`.

        It makes one call for the scores of ten regions, and in each region four for prices, one for each quota of
        vCPUs, and one for the offerings of types that the package's table does not have.
        """
        asked = question.normal
        calls = [*self._scores(asked)]
        for region in asked.regions:
            calls += [*self._prices(asked, region), *self._offerings(asked, region), *self._quotas(asked, region)]
        replies = ask_all(calls, self._cache, self._seconds)
        scored = [each for each in replies if each.call.source == SCORES and each.data]
        names = _names(replies)
        unnamed = {region for reply in scored for region, zone, _ in reply.data if zone and zone not in names}
        if unnamed:
            more = ask_all([self._zones(region) for region in sorted(unnamed)], self._cache, self._seconds)
            replies, names = [*replies, *more], names | _names(more)
        return LiveAnswer(
            scores=tuple(_scores(scored, names)),
            prices=tuple(spot for region in asked.regions for spot in _spot_prices(region, replies)),
            offered=tuple(_offered(replies, names)),
            quotas=tuple(_quotas(replies)),
            gaps=distinct(reply.gap for reply in replies if reply.gap),
        )

    # ---- calls --------------------------------------------------------------------------------------------------

    def _scores(self, asked: Question) -> Iterator[Call]:
        """Sorted, so that an equal question is not a new configuration: an account may ask few of them per day."""
        for home, regions in _together(asked.regions, self._region):
            wanted = {
                "InstanceTypes": sorted(asked.types[:1000]),
                "TargetCapacity": asked.cpus,
                "TargetCapacityUnitType": "vcpu",
                "SingleAvailabilityZone": asked.one_zone,
                "RegionNames": list(regions),
            }

            def fetch(home: str = home, wanted: Mapping[str, Any] = wanted) -> list[Any]:
                answer = self._client("ec2", home).get_spot_placement_scores(**wanted)
                return [
                    [each["Region"], each.get("AvailabilityZoneId"), int(each["Score"])]
                    for each in answer["SpotPlacementScores"]
                ]

            yield self._call(SCORES, home, wanted, MINUTES, fetch)

    def _prices(self, asked: Question, region: str) -> Iterator[Call]:
        """The prices now, their changes in a week, and those on a few days of a quarter."""
        now = datetime.datetime.now(datetime.UTC)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        starts = [("now", now), ("week", now - WEEK)]
        starts += [("day", midnight - datetime.timedelta(days=days)) for days in SAMPLES]
        types = sorted(asked.types[:MOST_TYPES])
        for what, start in starts:

            def fetch(what: str = what, start: datetime.datetime = start) -> list[Any]:
                return self._price_rows(region, types, what, start)

            key, fresh = ([what, types, f"{start:%F}"], DAY) if what == "day" else ([what, types], MINUTES)
            yield self._call(PRICES, region, key, fresh, fetch)

    def _price_rows(self, region: str, types: Sequence[str], what: str, start: datetime.datetime) -> list[Any]:
        """Zone, its id, type, time and price: of a day, those in force at its start; else all since the start.

        The prices in force at the start are always among them: AWS returns the last change before it.
        """
        rows: list[Any] = []
        wanted: dict[str, Any] = {"InstanceTypes": list(types), "ProductDescriptions": [_LINUX], "MaxResults": _PAGE}
        wanted |= {"StartTime": start} | ({"EndTime": start} if what == "day" else {})
        for _ in range(_PAGES[what]):
            page = self._client("ec2", region).describe_spot_price_history(**wanted)
            for price in page["SpotPriceHistory"]:
                at = max(start, price["Timestamp"]).timestamp()
                zone = [price["AvailabilityZone"], price.get("AvailabilityZoneId")]
                rows.append([*zone, price["InstanceType"], at, float(price["SpotPrice"])])
            if not page.get("NextToken"):
                break
            wanted["NextToken"] = page["NextToken"]
        return rows

    def _offerings(self, asked: Question, region: str) -> Iterator[Call]:
        """Of types whose regions the package's own table does not know."""
        types = sorted(each for each in asked.types[:MOST_TYPES] if prices.offering("aws", region, each) is None)

        def fetch() -> list[Any]:
            wanted = {
                "LocationType": "availability-zone-id",
                "Filters": [{"Name": "instance-type", "Values": types}],
                "MaxResults": _PAGE,
            }
            answer = self._client("ec2", region).describe_instance_type_offerings(**wanted)
            zones: dict[str, list[str]] = {kind: [] for kind in types}
            for offering in answer["InstanceTypeOfferings"]:
                zones[offering["InstanceType"]].append(offering["Location"])
            return [[name, sorted(where)] for name, where in zones.items()]

        if types:
            yield self._call(OFFERINGS, region, types, DAY, fetch)

    def _quotas(self, asked: Question, region: str) -> Iterator[Call]:
        for kind in sorted({kind_of(each, "spot") for each in asked.types}):
            code = QUOTAS.get(("spot", kind))
            if code is None:
                continue

            def fetch(kind: str = kind, code: str = code) -> list[Any]:
                answer = self._client("service-quotas", region).get_service_quota(ServiceCode="ec2", QuotaCode=code)
                return ["spot", kind, answer["Quota"].get("Value")]

            yield self._call(QUOTA, region, code, HOUR, fetch)

    def _zones(self, region: str) -> Call:
        """Names and ids of the zones: the names differ by account."""

        def fetch() -> list[Any]:
            answer = self._client("ec2", region).describe_availability_zones()
            return [[each["ZoneName"], each["ZoneId"]] for each in answer["AvailabilityZones"]]

        return self._call(ZONES, region, "all", DAY, fetch)

    def _call(self, source: str, region: str, key: object, fresh: float, fetch: Callable[[], Any]) -> Call:
        def asked() -> Any:
            self._open()
            with aws_refusals(source, region):
                return fetch()

        return Call(source, region, [self._account, key], fresh, asked)

    def _open(self) -> boto3.Session:
        """The session, opened when the first call needs it: what is kept needs no SDK.

        Raises:
            CallerError: boto3 is not installed, or AWS_PROFILE names no profile.
        """
        with self._lock:
            self._session = self._session or default_session()
            return self._session

    def _client(self, service: str, region: str) -> Any:
        """A client, made when something is asked: boto3 makes them slowly, and one at a time."""
        from botocore.config import Config
        from botocore.exceptions import NoCredentialsError

        session = self._open()
        with self._lock:
            if self._login is None:
                # boto3 would look for one again for each client, on a laptop for a second each.
                self._login = session.get_credentials() is not None
            if not self._login:
                raise NoCredentialsError
            if (service, region) not in self._clients:
                config = Config(
                    retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
                    connect_timeout=_CONNECT_SECONDS,
                    read_timeout=_READ_SECONDS,
                )
                self._clients[service, region] = session.client(service, region_name=region, config=config)
            return self._clients[service, region]


def _together(regions: Sequence[str], home: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Regions that one request for scores is about, each time with the region that is asked.

    China's regions answer for themselves only.
    Source: https://docs.amazonaws.cn/en_us/AWSEC2/latest/UserGuide/spot-placement-score.html
    """
    alone = [region for region in regions if region.startswith("cn-")]
    others = [region for region in regions if region not in alone]
    yield from ((region, [region]) for region in alone)
    for start in range(0, len(others), MOST_REGIONS):
        yield others[0] if home.startswith("cn-") else home, others[start : start + MOST_REGIONS]


# ---- replies ----------------------------------------------------------------------------------------------------


def _of(replies: Iterable[Reply], source: str) -> Iterator[tuple[Reply, datetime.datetime]]:
    """The replies of one kind that have data, with its time."""
    return ((each, each.at) for each in replies if each.call.source == source and each.at and each.data is not None)


def _names(replies: Iterable[Reply]) -> dict[str, str]:
    """The names of zones by their ids."""
    replies = list(replies)
    names = {row[1]: row[0] for reply, _ in _of(replies, PRICES) for row in reply.data if row[1]}
    return names | {zone: name for reply, _ in _of(replies, ZONES) for name, zone in reply.data}


def _scores(replies: Iterable[Reply], names: Mapping[str, str]) -> Iterator[PlacementScore]:
    for reply, at in _of(replies, SCORES):
        for region, zone, score in reply.data:
            yield PlacementScore(region, names.get(zone, zone), at, SCORES, zone, score)


def _spot_prices(region: str, replies: Iterable[Reply]) -> Iterator[SpotPrice]:
    """One price for each type and zone."""
    told = [(reply, at) for reply, at in _of(replies, PRICES) if reply.call.region == region]
    moments: dict[tuple[str, str | None, str], list[PricePoint]] = {}
    newest: dict[tuple[str, str | None, str], tuple[PricePoint, datetime.datetime]] = {}
    for reply, at in told:
        current = _what(reply) == "now"
        for zone, zone_id, kind, stamp, usd in reply.data:
            moment = PricePoint(datetime.datetime.fromtimestamp(stamp, datetime.UTC), usd)
            place = (zone, zone_id, kind)
            if current:
                newest[place] = (PricePoint(max(at, moment.at), usd), at)
            else:
                moments.setdefault(place, []).append(moment)
    for place in {**newest, **moments}:
        zone, zone_id, kind = place
        points = moments.get(place, [])
        last = max(points, key=lambda each: each.at) if points else None
        now, at = newest.get(place) or (last, told[0][1])
        assert now is not None
        yield SpotPrice(
            region, zone, at, PRICES, kind, now.usd, ranged(points, now, WEEK), ranged(points, now, QUARTER), zone_id
        )


def _what(reply: Reply) -> str:
    return reply.call.key[1][0]  # type: ignore[index]


def _offered(replies: Iterable[Reply], names: Mapping[str, str]) -> Iterator[TypeOffering]:
    for reply, at in _of(replies, OFFERINGS):
        for kind, zones in reply.data:
            if not zones:
                yield TypeOffering(reply.call.region, None, at, OFFERINGS, kind, False)
            for zone in zones:
                yield TypeOffering(reply.call.region, names.get(zone, zone), at, OFFERINGS, kind, True, zone)


def _quotas(replies: Iterable[Reply]) -> Iterator[CpuQuota]:
    for reply, at in _of(replies, QUOTA):
        market, kind, limit = reply.data
        yield CpuQuota(reply.call.region, None, at, QUOTA, market, kind, limit)


def open_source(region: str, account: str, cache: Cache | None) -> AwsSource:
    return AwsSource(region, account, cache=cache)
