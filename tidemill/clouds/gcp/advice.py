"""Reads GCP's capacity: how likely Spot machines are to be there, how often they are reclaimed, and prices.

Both methods are a preview and answer on the beta API alone; its shapes are those of the discovery document of November
2026. Neither knows TPUs, and the history knows no GPUs that are attached to an n1.
Sources: https://docs.cloud.google.com/compute/docs/instances/view-vm-availability,
https://docs.cloud.google.com/compute/docs/instances/view-spot-preemption-price,
https://docs.cloud.google.com/compute/docs/reference/rest/beta/advice/capacity and
https://docs.cloud.google.com/compute/docs/reference/rest/beta/advice/capacityHistory
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tidemill import machines, prices
from tidemill.advice.cache import Cache
from tidemill.advice.calls import SECONDS, Call, Reply, ask_all, distinct
from tidemill.advice.history import QUARTER, WEEK, PricePoint, ranged
from tidemill.advice.sources import (
    CapacityAdvice,
    Gap,
    LiveAnswer,
    NoAnswerError,
    Question,
    ReclaimRate,
    RecommendedMachines,
    SpotPrice,
)
from tidemill.clouds.gcp.refusals import gcp_refusals
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.errors import CloudError

CAPACITY = "compute.advice.capacity"
HISTORY = "compute.advice.capacityHistory"

MOST_TYPES = 100
MOST_HISTORIES = 10
"""Calls for history of a question, of all its regions: each is about one machine type."""
MINUTES, HOUR = 600.0, 3600.0
_PAUSES = (0.5,)
"""Seconds before the only retry: a person waits for the answer."""


class GcpSource:
    """Asks GCP with the caller's own login.

    Args:
        project: Of the pipeline, whose quota the calls use; without one, nothing is asked.
        session: None for the application default credentials'.
        cache: Where answers are kept for a while.
        seconds: How long the calls of a question together may take.
    """

    def __init__(
        self,
        project: str,
        session: GoogleSession | None = None,
        *,
        cache: Cache | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._project, self._session = project, session or GoogleSession(project)
        self._cache, self._seconds = cache or Cache(), seconds

    def ask(self, question: Question) -> LiveAnswer:
        """See `LiveSource.ask`.

        It makes one call in each region for the capacity of all types together, and ten for the history of the first
        types, shared by the regions.
        """
        if not self._project:
            problem = f"{CAPACITY}: no project is named whose quota the call uses."
            return LiveAnswer(gaps=(Gap(CAPACITY, "", NoAnswerError(problem, "Name a pipeline on GCP: --pipeline.")),))
        asked = question.normal
        calls: list[Call] = []
        for region in asked.regions:
            types = [each for each in asked.types[:MOST_TYPES] if _sold(region, each)]
            if types:
                calls += [self._capacity(asked, region, types), *self._histories(asked, region, types)]
        replies = ask_all(calls, self._cache, self._seconds)
        return LiveAnswer(
            capacity=tuple(_capacity(replies)),
            reclaims=tuple(_reclaims(replies)),
            prices=tuple(_prices(replies)),
            gaps=distinct(reply.gap for reply in replies if reply.gap),
        )

    def _capacity(self, asked: Question, region: str, types: Sequence[str]) -> Call:
        size = math.ceil(asked.cpus / _machine(types[0]).cpus)
        body = {
            "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
            "instanceFlexibilityPolicy": {"instanceSelections": _selections(types)},
            "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE" if asked.one_zone else "ANY"},
            "size": size,
        }

        def fetch() -> dict[str, Any]:
            answer = self._ask("capacity", region, body, CAPACITY)
            best = next(iter(answer.get("recommendations", [])), {})
            scores, uptime = best.get("scores", {}), best.get("scores", {}).get("estimatedUptime")
            shards = [
                [each["zone"].rpartition("/")[2], each["machineType"].rpartition("/")[2], int(each["instanceCount"])]
                for each in best.get("shards", [])
            ]
            seconds = float(uptime.removesuffix("s")) if uptime else None
            return {"size": size, "value": scores.get("obtainability"), "uptime": seconds, "shards": shards}

        return Call(CAPACITY, region, [self._project, body], MINUTES, fetch)

    def _histories(self, asked: Question, region: str, types: Sequence[str]) -> Iterator[Call]:
        share = max(1, MOST_HISTORIES // len(asked.regions))
        for kind in [each for each in types if "+" not in each][:share]:
            body = {
                "types": ["PREEMPTION", "PRICE"],
                "instanceProperties": {"machineType": kind, "scheduling": {"provisioningModel": "SPOT"}},
            }

            def fetch(kind: str = kind, body: dict[str, Any] = body) -> dict[str, Any]:
                answer = self._ask("capacityHistory", region, body, HISTORY)
                rates = [each["preemptionRate"] for each in answer.get("preemptionHistory", [])]
                costs = [_price(each) for each in answer.get("priceHistory", [])]
                return {"type": kind, "rates": rates, "prices": [each for each in costs if each]}

            yield Call(HISTORY, region, [self._project, body], HOUR, fetch)

    def _ask(self, what: str, region: str, body: dict[str, Any], action: str) -> dict[str, Any]:
        path = f"compute/beta/projects/{self._project}/regions/{region}/advice/{what}"
        with gcp_refusals(action):
            return self._session.call("compute", "POST", path, body, action=action, busy=True, pauses=_PAUSES)


def _sold(region: str, kind: str) -> bool:
    """True if a region may have a type: one that it lacks would spoil the request for the others."""
    covered = region in prices.covered("gcp")
    return not covered or prices.machine("gcp", region, _split(kind)[0]) is not None


def _split(kind: str) -> tuple[str, int]:
    """Name and attached GPUs of `n1-standard-8+1t4`."""
    name, _, attached = kind.partition("+")
    return name, int(attached.removesuffix("t4")) if attached else 0


def _machine(kind: str) -> machines.MachineType:
    name, gpus = _split(kind)
    machine = machines.find("gcp", name, gpus=gpus)
    if machine is None:
        raise CloudError(f"{kind} is no machine type that is known.")
    return machine


def _selections(types: Sequence[str]) -> dict[str, Any]:
    """Types with the same attached GPUs together: a selection has its own."""
    groups: dict[int, list[str]] = {}
    for kind in sorted(types):
        name, gpus = _split(kind)
        groups.setdefault(gpus, []).append(name)
    selections: dict[str, Any] = {}
    for gpus, names in groups.items():
        attached = [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": gpus}] if gpus else []
        selections[f"gpus-{gpus}"] = {"machineTypes": names} | ({"guestAccelerators": attached} if attached else {})
    return selections


def _price(record: dict[str, Any]) -> list[Any] | None:
    """Start and end in seconds since the epoch, the end None while it lasts, and USD per hour."""
    money, interval = record.get("listPrice", {}), record["interval"]
    if money.get("currencyCode") != "USD":
        return None
    end = interval.get("endTime")
    return [
        _stamp(interval["startTime"]),
        _stamp(end) if end else None,
        int(money.get("units", 0)) + int(money.get("nanos", 0)) / 1e9,
    ]


def _stamp(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# ---- replies ----------------------------------------------------------------------------------------------------


def _of(replies: Iterable[Reply], source: str) -> Iterator[tuple[Reply, datetime.datetime]]:
    return ((each, each.at) for each in replies if each.call.source == source and each.at and each.data is not None)


def _capacity(replies: Iterable[Reply]) -> Iterator[CapacityAdvice]:
    for reply, at in _of(replies, CAPACITY):
        data = reply.data
        placed = tuple(RecommendedMachines(*shard) for shard in data["shards"])
        yield CapacityAdvice(reply.call.region, None, at, CAPACITY, data["size"], data["value"], data["uptime"], placed)


def _reclaims(replies: Iterable[Reply]) -> Iterator[ReclaimRate]:
    for reply, at in _of(replies, HISTORY):
        rates = reply.data["rates"]
        mean = sum(rates) / len(rates) if rates else None
        yield ReclaimRate(reply.call.region, None, at, HISTORY, reply.data["type"], mean, len(rates))


def _prices(replies: Iterable[Reply]) -> Iterator[SpotPrice]:
    for reply, at in _of(replies, HISTORY):
        spans = sorted(reply.data["prices"])
        if not spans:
            continue
        now = PricePoint(at, spans[-1][2])
        week, quarter = (ranged(_moments(spans, at - span), now, span) for span in (WEEK, QUARTER))
        yield SpotPrice(reply.call.region, None, at, HISTORY, reply.data["type"], now.usd, week, quarter)


def _moments(spans: Sequence[Sequence[Any]], start: datetime.datetime) -> Iterator[PricePoint]:
    """Start time of each price still in force after `start`."""
    for begin, end, usd in spans:
        if end is None or end > start.timestamp():
            yield PricePoint(max(start, datetime.datetime.fromtimestamp(begin, datetime.UTC)), usd)


def open_source(region: str, account: str, cache: Cache | None) -> GcpSource:
    return GcpSource(account, cache=cache)
