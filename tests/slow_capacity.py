"""Clouds that take their time over questions of capacity, and count them. No network, no login.

    aws = SlowAws(seconds=0.08)
    AwsSource("us-west-2", "123456789012", aws).ask(question)
    assert aws.calls.total() <= 12

Answers have the shapes of botocore's model and of the beta discovery document; tests/localcloud/test_capacity.py holds
the sources against those. The figures mean nothing.
"""

from __future__ import annotations

import datetime
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tidemill.clouds.gcp.session import GoogleSession

Refusal = Callable[[str, str], Exception | None]


class _Slow:
    """Counts and delays.

    Args:
        seconds: What each call takes.
        refuse: (operation, region) → what to raise instead of an answer.
    """

    def __init__(self, seconds: float = 0.08, refuse: Refusal = lambda operation, region: None) -> None:
        self.calls: Counter[str] = Counter()
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.refuse, self._seconds, self._lock = refuse, seconds, threading.Lock()
        self.most = self._running = 0
        """How many calls were under way at once."""

    def count(self, operation: str, region: str, wanted: dict[str, Any]) -> None:
        with self._lock:
            self.calls[operation] += 1
            self.asked.append((operation, region, wanted))
            self._running += 1
            self.most = max(self.most, self._running)
        time.sleep(self._seconds)
        with self._lock:
            self._running -= 1
        if error := self.refuse(operation, region):
            raise error


class SlowAws(_Slow):
    """In the place of a boto3 session."""

    zones = 4
    login: object | None = object()
    looked = 0
    """How often a login was looked for, which takes a second where there is none."""

    def get_credentials(self) -> object | None:
        self.looked += 1
        return self.login

    def client(self, service: str, region_name: str, config: Any = None) -> SlowClient:
        return SlowClient(self, region_name)


class SlowClient:
    """In the place of clients of EC2 and Service Quotas in one region."""

    def __init__(self, session: SlowAws, region: str) -> None:
        self._session, self._region = session, region

    def _places(self) -> list[dict[str, str]]:
        return [
            {
                "AvailabilityZone": f"{self._region}{'abcdef'[number]}",
                "AvailabilityZoneId": f"{self._region}-az{number}",
            }
            for number in range(self._session.zones)
        ]

    def get_spot_placement_scores(self, **wanted: Any) -> dict[str, Any]:
        self._session.count("GetSpotPlacementScores", self._region, wanted)
        zones = [each["AvailabilityZoneId"] for each in self._places()] if wanted["SingleAvailabilityZone"] else [None]
        rows = [(region, zone) for region in wanted["RegionNames"] for zone in zones]
        named = [{"Region": region, "AvailabilityZoneId": zone, "Score": 7} for region, zone in rows]
        return {"SpotPlacementScores": [{key: each[key] for key in each if each[key] is not None} for each in named]}

    def describe_spot_price_history(self, **wanted: Any) -> dict[str, Any]:
        self._session.count("DescribeSpotPriceHistory", self._region, wanted)
        start, end = wanted["StartTime"], wanted.get("EndTime") or datetime.datetime.now(datetime.UTC)
        times = [start - datetime.timedelta(hours=1)]
        while times[-1] + datetime.timedelta(days=2) <= end:
            times.append(times[-1] + datetime.timedelta(days=2))
        rows = [
            {"InstanceType": kind, "Timestamp": at, "SpotPrice": f"{0.1 + at.day / 1000:.4f}", **place}
            for at in reversed(times)
            for kind in wanted["InstanceTypes"]
            for place in self._places()
        ]
        first = int(wanted.get("NextToken") or 0)
        rest = {"NextToken": str(first + 1000)} if len(rows) > first + 1000 else {"NextToken": ""}
        return {"SpotPriceHistory": rows[first : first + 1000], **rest}

    def describe_instance_type_offerings(self, **wanted: Any) -> dict[str, Any]:
        self._session.count("DescribeInstanceTypeOfferings", self._region, wanted)
        zone = self._places()[0]["AvailabilityZoneId"]
        types = [kind for kind in wanted["Filters"][0]["Values"] if not kind.startswith("none")]
        return {"InstanceTypeOfferings": [{"InstanceType": kind, "Location": zone} for kind in types]}

    def describe_availability_zones(self) -> dict[str, Any]:
        self._session.count("DescribeAvailabilityZones", self._region, {})
        names = [(each["AvailabilityZone"], each["AvailabilityZoneId"]) for each in self._places()]
        return {"AvailabilityZones": [{"ZoneName": name, "ZoneId": zone} for name, zone in names]}

    def get_service_quota(self, **wanted: Any) -> dict[str, Any]:
        self._session.count("GetServiceQuota", self._region, wanted)
        return {"Quota": {"Value": 640.0}}


class SlowGoogle(_Slow, GoogleSession):
    """In the place of a `GoogleSession`."""

    def call(
        self,
        api: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        action: str,
        busy: bool = False,
        **_: Any,
    ) -> dict[str, Any]:
        region = path.split("/")[-3]
        assert (api, method, busy) == ("compute", "POST", True)
        assert body is not None
        self.count(action, region, body)
        if action.endswith("capacity"):
            kind = next(iter(body["instanceFlexibilityPolicy"]["instanceSelections"].values()))["machineTypes"][0]
            shard = {"zone": f"{region}-a", "machineType": kind, "instanceCount": body["size"]}
            scores = {"obtainability": 0.8, "estimatedUptime": "600s"}
            return {"recommendations": [{"scores": scores, "shards": [{**shard, "provisioningModel": "SPOT"}]}]}
        now = datetime.datetime.now(datetime.UTC)
        month = {"startTime": f"{now - datetime.timedelta(days=30):%FT%TZ}", "endTime": f"{now:%FT%TZ}"}
        money = {"currencyCode": "USD", "units": "0", "nanos": 90_000_000}
        return {
            "machineType": body["instanceProperties"]["machineType"],
            "preemptionHistory": [{"interval": month, "preemptionRate": 0.1}],
            "priceHistory": [{"interval": month, "listPrice": money}],
        }
