"""Prices of all regions from the Cloud Billing Catalog: by vCPU, GiB and GPU, and the Spot prices of the day.

Needs a Google login and a project in which the Cloud Billing API is enabled; costs nothing.
Sources: https://cloud.google.com/billing/docs/reference/rest/v1/services.skus/list and
https://cloud.google.com/compute/all-pricing
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import Any

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from components import machines
from components.machines import MachineType
from ops.prices import pages
from ops.prices.pages import ExpiredTokenError, Page, Pages
from ops.prices.region import ON_DEMAND, SERVICES, SPOT, Answer, RefusedError, why
from tidemill.prices import HOURS_A_MONTH

CATALOG = "https://cloudbilling.googleapis.com/v1"
COMPUTE_ENGINE = "6F81-5844-456A"
"""The service's id.
Source: https://cloud.google.com/billing/docs/how-to/get-pricing-information-api"""
SOURCE = "Cloud Billing Catalog, Compute Engine"
_SCOPE = "https://www.googleapis.com/auth/cloud-billing.readonly"
_PAGE = 5000
_TIMEOUT_SECONDS = 60

_FAMILY = re.compile(r"(?P<name>[A-Z]\d+[A-Z]?)( AMD| Arm| Predefined)?")
"""`C3`, `N2D AMD`, `T2A Arm`; custom types and sole tenancy are other products."""
_REGION = re.compile(r"[a-z0-9-]+")
"""A region's name becomes a file's."""
_PART = re.compile(r"(?P<spot>Spot Preemptible )?(?P<family>[\w ]+?) Instance (?P<part>Core|Ram) running in .+")
_DISK = re.compile(
    r"((?P<spot>Spot Preemptible )?(?P<family>[\w ]+?) Instance Local SSD"
    r"|SSD backed Local Storage( attached to (?P<attached>Spot Preemptible) VMs?)?)( (running )?in .+)?"
)
"""Local disks, of one family or of those without a price of their own."""
_GPUS = {
    "L4": ("g2",),
    "Tesla T4": ("n1-t4",),
    "Tesla A100": ("a2", "a2-mega"),
    "Tesla A100 80GB": ("a2-ultra",),
    "H100 80GB": ("a3",),
    "H100 80GB Mega": ("a3-mega",),
    "H200 141GB": ("a3-ultra",),
    "RTX 6000 96GB": ("g4",),
}
"""The families that have a model. An a4 has none: its one SKU (`A4 Nvidia B200 (1 gpu slice)`) is for all parts of
a machine, so that its price stays unknown."""
_GPU = re.compile(
    rf"(Nvidia )?(?P<model>{'|'.join(_GPUS)})( GPU)? (attached to (?P<spot>Spot Preemptible) VMs )?running in .+"
)
"""The catalogue says `Nvidia L4 GPU` and `H200 141GB GPU`."""
_SERVICES = {
    "disk_gib_month": re.compile(r"Balanced PD Capacity( in .+)?"),
    "public_ipv4_hour": re.compile("External IP Charge on a Standard VM"),
    "public_ipv4_spot_hour": re.compile("External IP Charge on a Spot Preemptible VM"),
}
_UNITS = {"Core": "h", "Ram": "GiBy.h", "gpu": "h", "disk_gib_month": "GiBy.mo"}

Rates = dict[tuple[str, str, bool], float]
"""USD by family (empty: all), part (`Core`, `Ram`, `gpu`, `disk`) and whether it is Spot."""


class Gcp:
    """Asks GCP. Its catalogue has all regions, and is read once.

    Args:
        session: An authorised one; None for the login of this machine.
        url: Where the catalogue is.
        folder: Where pages wait for the rest of the catalogue.
    """

    def __init__(
        self, session: AuthorizedSession | None = None, url: str = CATALOG, folder: Path | None = None
    ) -> None:
        self._session, self._url = session, url
        self._pages = Pages((folder or pages.FOLDER) / "gcp")

    def check(self, parts: Collection[str]) -> None:
        """Read the catalogue, which has all parts.

        Raises:
            RefusedError: It could not be read.
        """
        len(self._skus)

    def regions(self) -> list[str]:
        """Every region in which the catalogue sells a machine."""
        sold = (sku for sku in self._skus if _PART.fullmatch(sku["description"]))
        named = {region for sku in sold for region in sku["serviceRegions"]} - {"global"}
        return sorted(region for region in named if _REGION.fullmatch(region))

    def ask(self, region: str, parts: Collection[str]) -> list[Answer]:
        """Ask GCP for some parts of a region; it publishes no interruptions."""
        wanted = [part for part in (ON_DEMAND, SPOT, SERVICES) if part in parts]
        here = [sku for sku in self._skus if {region, "global"} & set(sku["serviceRegions"])]
        rates = _rates(here)
        values = {part: _services(here) if part == SERVICES else _machines(rates, part == SPOT) for part in wanted}
        expected = {part: [*_SERVICES] if part == SERVICES else [_name(each) for each in _types()] for part in wanted}
        return [
            Answer(part, SOURCE, values[part], [name for name in expected[part] if name not in values[part]])
            for part in wanted
        ]

    def forget(self, region: str, part: str) -> None:
        """Keep the catalogue: the regions that follow need it, in this run or after an interruption."""

    @cached_property
    def _skus(self) -> list[dict[str, Any]]:
        """The SKUs that the table needs."""
        try:
            return self._pages.rows(self._asker())
        except (GoogleAuthError, RequestException, ExpiredTokenError, ValueError, KeyError) as error:
            raise RefusedError(why(error)) from error

    def _asker(self) -> Callable[[str], Page]:
        session = self._session or _login()

        def ask(token: str) -> Page:
            params = {"currencyCode": "USD", "pageSize": _PAGE, "pageToken": token}
            place = f"{self._url}/services/{COMPUTE_ENGINE}/skus"
            answer = session.get(place, params=params, timeout=_TIMEOUT_SECONDS)
            if token and answer.status_code == HTTPStatus.BAD_REQUEST:
                raise ExpiredTokenError(f"{place}: {answer.text[:200]}")
            answer.raise_for_status()
            page = answer.json()
            needed = (_short(sku) for sku in page.get("skus", []) if _needed(sku.get("description", "")))
            return list(needed), page.get("nextPageToken", "")

        return ask


def _needed(description: str) -> bool:
    return any(pattern.fullmatch(description) for pattern in (_PART, _GPU, _DISK, *_SERVICES.values()))


def _short(sku: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a SKU that are read: a tenth of it."""
    return {
        "description": sku["description"],
        "category": {"usageType": sku["category"]["usageType"]},
        "serviceRegions": sku.get("serviceRegions", []),
        "pricingInfo": sku.get("pricingInfo", [])[-1:],
    }


def _machines(rates: Rates, spot: bool) -> dict[str, Any]:
    usd = {_name(machine): _machine(machine, rates, spot) for machine in _types()}
    return {name: [price, price] if spot else price for name, price in usd.items() if price is not None}


def _login() -> AuthorizedSession:
    credentials, _ = google.auth.default(scopes=[_SCOPE])
    return AuthorizedSession(credentials)


def _rates(skus: Iterable[Mapping[str, Any]]) -> Rates:
    rates: Rates = {}
    for sku in skus:
        if found_part := _PART.fullmatch(sku["description"]):
            named = _FAMILY.fullmatch(found_part["family"])
            families = (named["name"].lower(),) if named else ()
            part, spot = found_part["part"], bool(found_part["spot"])
        elif found_gpu := _GPU.fullmatch(sku["description"]):
            families, part, spot = _GPUS.get(found_gpu["model"], ()), "gpu", bool(found_gpu["spot"])
        elif found_disk := _DISK.fullmatch(sku["description"]):
            named = _FAMILY.fullmatch(found_disk["family"] or "")
            families, part = ((named["name"].lower() if named else ""),), "disk"
            spot = bool(found_disk["spot"] or found_disk["attached"])
        else:
            continue
        usage = sku["category"]["usageType"]
        # Commitments and reservations of the same description have usage types of their own. Spot's local disks of no
        # family are told as On-Demand.
        if families and usage in ({"Preemptible", "OnDemand"} if (spot and part == "disk") else {_usage(spot)}):
            price = _disk_usd(sku) if part == "disk" else _usd(sku, _UNITS[part])
            if price is not None:
                # Of two prices the dearest: a limit counts it.
                rates |= {key: max(price, rates.get(key, 0.0)) for each in families if (key := (each, part, spot))}
    return rates


def _usage(spot: bool) -> str:
    return "Preemptible" if spot else "OnDemand"


def _disk_usd(sku: Mapping[str, Any]) -> float | None:
    """USD of a GiB and hour; the catalogue tells some by the month."""
    month = _usd(sku, "GiBy.mo")
    return month / HOURS_A_MONTH if month is not None else _usd(sku, "GiBy.h")


def _services(skus: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    prices: dict[str, float] = {}
    for sku in skus:
        for name, described in _SERVICES.items():
            if described.fullmatch(sku["description"]) and sku["category"]["usageType"] == "OnDemand":
                price = _usd(sku, _UNITS.get(name, "h"))
                if price is not None:
                    prices[name] = max(price, prices.get(name, 0.0))
    return prices


def _usd(sku: Mapping[str, Any], unit: str) -> float | None:
    """The price of one unit in USD, from the last tier: the earlier ones are free amounts. One of 0 is none."""
    if not sku.get("pricingInfo"):
        return None
    expression = sku["pricingInfo"][-1]["pricingExpression"]
    if expression["usageUnit"] != unit or not expression["tieredRates"]:
        return None
    price = expression["tieredRates"][-1]["unitPrice"]
    if price.get("currencyCode", "USD") != "USD":
        return None
    usd = int(price.get("units", 0)) + price.get("nanos", 0) / 1e9
    return usd if usd > 0 else None


def _types() -> list[MachineType]:
    return [machine for family in machines.families("gcp").values() for machine in family]


def _name(machine: MachineType) -> str:
    """The key of a machine in the table; it includes an attached T4."""
    return f"{machine.type}+{machine.gpus}t4" if machine.attach else machine.type


def _machine(machine: MachineType, rates: Rates, spot: bool) -> float | None:
    """USD per hour of a machine: its vCPUs, GiB, GPUs and local disks; None if one of them has no price."""
    series = machine.type.partition("-")[0]
    amounts = {(series, "Core"): machine.cpus, (series, "Ram"): machine.memory_mib / 1024}
    if machine.gpus:
        amounts[machine.family, "gpu"] = machine.gpus
    if machine.local_gib:
        amounts[series if (series, "disk", spot) in rates else "", "disk"] = machine.local_gib
    if any((*key, spot) not in rates for key in amounts):
        return None
    return round(sum(amount * rates[*key, spot] for key, amount in amounts.items()), 6)


PRICES = Gcp
