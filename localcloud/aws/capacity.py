"""What EC2 says of its capacity, which moto does not: placement scores and the history of Spot prices.

The figures are made up from the names of types and zones, so that they are the same in every run. The shapes, the rules
and the refusals are EC2's, as its pages and botocore's model of November 2026 have them.
Sources: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_GetSpotPlacementScores.html,
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html,
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-placement-score.html
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.responses import EC2Response

from localcloud.aws.mended.method import method
from localcloud.faults import Faults, chance

CONFIGURATIONS = 20
"""Different questions for scores that an account may ask in 24 hours. AWS has such a limit, and does not publish it."""
DAYS = 90
FEW_TYPES = 3
"""Fewer types than that always score low."""
BEST = 10
"""Regions or zones of an answer."""
PAGE = 1000
USD_CPU = 0.0125
THROTTLED = "RequestLimitExceeded"

faults = Faults((THROTTLED,))
"""Calls that are throttled because a test requests it, by the operation's name."""


def _throttle(operation: str) -> None:
    if faults.take("POST", operation):
        raise EC2ClientError(THROTTLED, "Request limit exceeded.")


def _cpus(kind: str) -> int:
    if kind not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"The following supplied instance types do not exist: [{kind}]")
    return INSTANCE_TYPES[kind]["VCpuInfo"]["DefaultVCpus"]


def _zones(response: EC2Response, region: str) -> list[Any]:
    return [zone for zone in response.ec2_backend.zones.get(region, []) if zone.zone_type == "availability-zone"]


@method(EC2Response, "get_spot_placement_scores")
def _scores(response: EC2Response) -> ActionResult:
    _throttle("GetSpotPlacementScores")
    types = sorted(response._get_param("InstanceTypes", []))
    regions = sorted(response._get_param("RegionNames", []) or [response.region])
    wanted, unit = response._get_int_param("TargetCapacity"), response._get_param("TargetCapacityUnitType", "units")
    single = response._get_bool_param("SingleAvailabilityZone", False)
    if not types or not wanted or wanted < 1:
        raise EC2ClientError("InvalidParameterValue", "InstanceTypes and a TargetCapacity of at least 1 are required")
    cpus = wanted if unit == "vcpu" else wanted * min(map(_cpus, types))
    for kind in types:
        _cpus(kind)
    _count(response, repr((types, regions, wanted, unit, single)))
    places = [(region, None) for region in regions]
    if single:
        places = [(region, zone.zone_id) for region in regions for zone in _zones(response, region)]
    rows = [_score(region, zone, types, cpus) for region, zone in places]
    best = sorted(rows, key=lambda row: -row["Score"])[:BEST]
    return ActionResult({"SpotPlacementScores": best})


def _score(region: str, zone: str | None, types: list[str], cpus: int) -> dict[str, Any]:
    few = len(types) < FEW_TYPES
    score = 1 + int(chance(region, zone) * 2) if few else 9 - cpus.bit_length() // 4 + int(chance(region, zone) * 3)
    return {"Region": region, "Score": max(1, min(10, score))} | ({"AvailabilityZoneId": zone} if zone else {})


def _count(response: EC2Response, configuration: str) -> None:
    """Count a question; one of the last 24 hours may be repeated."""
    asked: dict[str, float] = response.ec2_backend.__dict__.setdefault("localcloud_configurations", {})
    now = time.time()
    for old in [each for each, at in asked.items() if now - at > 86_400]:
        del asked[old]
    if configuration not in asked and len(asked) >= CONFIGURATIONS:
        text = (
            "You have exceeded your maximum allowed Spot placement configurations. You can retry configurations that "
            "you used within the last 24 hours, or wait for 24 hours before specifying a new configuration."
        )
        raise EC2ClientError("MaxConfigLimitExceeded", text)
    asked[configuration] = now


@method(EC2Response, "describe_spot_price_history")
def _history(response: EC2Response) -> ActionResult:
    _throttle("DescribeSpotPriceHistory")
    now = datetime.now(UTC)
    start, end = (_time(response._get_param(name), now) for name in ("StartTime", "EndTime"))
    if start > end:
        raise EC2ClientError("InvalidParameterValue", "The start time must not be after the end time")
    start = max(start, now - timedelta(days=DAYS))
    types = response._get_param("InstanceTypes", []) or sorted(INSTANCE_TYPES)
    rows = [
        row
        for kind in types
        for zone in _zones(response, response.region)
        for row in _changes(kind, _cpus(kind), zone, start, end)
    ]
    rows.sort(key=lambda row: row["Timestamp"], reverse=True)
    size = response._get_int_param("MaxResults") or PAGE
    first = int(response._get_param("NextToken") or 0)
    rest = {"NextToken": str(first + size)} if first + size < len(rows) else {}
    return ActionResult({"SpotPriceHistory": rows[first : first + size], **rest})


def _time(text: Any, now: datetime) -> datetime:
    if not text:
        return now
    found = text if isinstance(text, datetime) else datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _changes(kind: str, cpus: int, zone: Any, start: datetime, end: datetime) -> Iterator[dict[str, Any]]:
    """A price per day, at a time of the day that differs by type and zone; the one in force at the start comes too."""
    after = timedelta(seconds=int(chance(kind, zone.name, "time") * 86_399))
    day = start.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    while day + timedelta(days=1) + after <= start:
        day += timedelta(days=1)
    while day + after <= end:
        price = cpus * USD_CPU * (0.8 + 0.4 * chance(kind, zone.name)) * (0.95 + 0.1 * chance(kind, zone.name, day))
        yield {
            "AvailabilityZone": zone.name,
            "AvailabilityZoneId": zone.zone_id,
            "InstanceType": kind,
            "ProductDescription": "Linux/UNIX",
            "SpotPrice": f"{price:.6f}",
            "Timestamp": day + after,
        }
        day += timedelta(days=1)
