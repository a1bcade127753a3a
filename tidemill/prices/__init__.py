"""The clouds' offerings and prices: a dated table of machines and services by region.

``data/<cloud>/<region>.json.gz`` holds one region, and is read when a price of that region is asked for. Nothing in it
is guessed: a price that is not there is unknown, never zero. ``python -m ops prices refresh`` writes it anew.
``data/own.json`` has a company's own prices. All are in USD, before taxes, discounts, free tiers and commitments.
"""

from __future__ import annotations

from tidemill.prices.dearest import at_most
from tidemill.prices.origin import PriceOrigin, brief, origin
from tidemill.prices.table import (
    HOURS_A_MONTH,
    Interruption,
    MachinePrice,
    Offering,
    ServicePrice,
    SpotRange,
    covered,
    interruption,
    machine,
    offering,
    on_demand,
    regions,
    service,
)

__all__ = [
    "HOURS_A_MONTH",
    "Interruption",
    "MachinePrice",
    "Offering",
    "PriceOrigin",
    "ServicePrice",
    "SpotRange",
    "at_most",
    "brief",
    "covered",
    "interruption",
    "machine",
    "offering",
    "on_demand",
    "origin",
    "regions",
    "service",
]
