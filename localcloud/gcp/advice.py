"""Compute's advice on the capacity of Spot machines: obtainability, expected uptime, reclaims and prices.

The figures are made up from the names of types and zones, so that they are the same in every run. The shapes and the
refusals are Compute's: the beta discovery document of November 2026 and the methods' pages.
Sources: https://docs.cloud.google.com/compute/docs/reference/rest/beta/advice/capacity,
https://docs.cloud.google.com/compute/docs/reference/rest/beta/advice/capacityHistory,
https://docs.cloud.google.com/compute/docs/instances/view-vm-availability and
https://docs.cloud.google.com/compute/docs/instances/view-spot-preemption-price
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from localcloud.faults import Faults, chance
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError

TYPE = re.compile(r"[a-z]\w*-(?:[a-z]\w*-)*(?P<size>\d+)g?")
UPTIMES = ("60s", "600s", "3600s")
DAYS, PRICED_DAYS = 30, 364
PRICE_DAYS = 28
"""Between two changes of a price, which are at least 30 days apart on GCP."""
USD_CPU = 0.009
MIDNIGHT = 8
"""Of the Pacific, in UTC: days of the history begin then."""


class CapacityAdvisor(Plugin):
    apis = ("compute",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._faults = Faults(("429",))
        self.controls = {"advice/faults": self._faults.control}

    def handle(self, request: Request) -> Response | None:
        """Answer the methods of advice; calendar mode is left out."""
        call = request.call
        if call.id not in ("compute.advice.capacity", "compute.advice.capacityHistory"):
            return None
        if self._faults.take(request.method, call.id):
            raise RestError(429, "Quota exceeded for quota metric 'Advice requests'.")
        region = call.params["region"]
        answer = _capacity if call.id.endswith("capacity") else _history
        return Response.of(answer(call.body or {}, region, self._site.project, self._now()))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._site.clock.now(), UTC)


def _capacity(body: dict[str, Any], region: str, _project: str, _now: datetime) -> dict[str, Any]:
    """One recommendation, which mixes the types and, unless one zone is wanted, two zones."""
    _spot(body)
    size = body.get("size", 0)
    if size < 1:
        raise RestError(400, "Invalid value for field 'size': must be at least 1.", field="size")
    chosen = body.get("instanceFlexibilityPolicy", {}).get("instanceSelections", {}).values()
    types = sorted({kind for each in chosen for kind in each.get("machineTypes", [])})
    if not types:
        raise RestError(400, "At least one machine type is required.", field="instanceFlexibilityPolicy")
    for kind in types:
        _cpus(kind)
    shape = body.get("distributionPolicy", {}).get("targetShape", "ANY")
    zones = [f"{region}-a"] if shape == "ANY_SINGLE_ZONE" else [f"{region}-a", f"{region}-b"]
    first = size if len(zones) == 1 else (size + 1) // 2
    counts = [count for count in (first, size - first) if count]
    shards = [
        {"zone": zone, "machineType": kind, "instanceCount": count, "provisioningModel": "SPOT"}
        for zone, count, kind in zip(zones, counts, types[-2:] * 2, strict=False)
    ]
    obtainable = max(0.1, round(0.95 - size.bit_length() * 0.05 - 0.1 * chance(region), 1))
    scores = {"obtainability": obtainable, "estimatedUptime": UPTIMES[int(chance(region, "up") * 3)]}
    return {"recommendations": [{"scores": scores, "shards": shards}]}


def _history(body: dict[str, Any], region: str, project: str, now: datetime) -> dict[str, Any]:
    properties = body.get("instanceProperties", {})
    _spot(body)
    kind = properties.get("machineType", "")
    cpus, wanted = _cpus(kind), body.get("types", [])
    link = f"https://www.googleapis.com/compute/beta/projects/{project}/regions/{region}"
    today = (now - timedelta(hours=MIDNIGHT)).replace(hour=MIDNIGHT, minute=0, second=0, microsecond=0)
    answer: dict[str, Any] = {"machineType": kind, "location": link}
    if "PREEMPTION" in wanted:
        answer["preemptionHistory"] = [
            {
                "interval": _interval(today - timedelta(days=back), 1),
                "preemptionRate": round(0.3 * chance(kind, region, back), 2),
            }
            for back in range(DAYS, 0, -1)
        ]
    if "PRICE" in wanted:
        answer["priceHistory"] = [
            {
                "interval": _interval(today - timedelta(days=back), PRICE_DAYS),
                "listPrice": _money(cpus, kind, region, back),
            }
            for back in range(PRICED_DAYS, 0, -PRICE_DAYS)
        ]
    return answer


def _spot(body: dict[str, Any]) -> None:
    model = body.get("instanceProperties", {}).get("scheduling", {}).get("provisioningModel")
    if model != "SPOT":
        raise RestError(400, "Only the SPOT provisioning model is supported.", field="provisioningModel")


def _cpus(kind: str) -> int:
    found = TYPE.fullmatch(kind)
    if found is None:
        raise RestError(400, f"Invalid machine type {kind!r}.", field="machineTypes")
    return int(found["size"])


def _interval(start: datetime, days: int) -> dict[str, str]:
    return {"startTime": f"{start:%FT%TZ}", "endTime": f"{start + timedelta(days=days):%FT%TZ}"}


def _money(cpus: int, kind: str, region: str, back: int) -> dict[str, Any]:
    usd = cpus * USD_CPU * (0.8 + 0.4 * chance(kind, region)) * (0.95 + 0.1 * chance(kind, region, back))
    return {"currencyCode": "USD", "units": str(int(usd)), "nanos": round(usd % 1 * 1e9)}
