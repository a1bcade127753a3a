"""Quotas of vCPUs, by market and class of machine types."""

from __future__ import annotations

import re

_STANDARD = "acdhimrtz"
QUOTAS = {
    ("spot", "standard"): "L-34B43A08",
    ("spot", "g"): "L-3819A6DF",
    ("spot", "p"): "L-7212CCBC",
    ("spot", "p5"): "L-C4BD4855",
    ("spot", "inf"): "L-B5D1601B",
    ("spot", "trn"): "L-6B0D517C",
    ("spot", "x"): "L-E3A00192",
    ("on_demand", "standard"): "L-1216C47A",
    ("on_demand", "g"): "L-DB2E81BA",
    ("on_demand", "p"): "L-417A185B",
    ("on_demand", "inf"): "L-1945791B",
    ("on_demand", "trn"): "L-2C3B7624",
    ("on_demand", "x"): "L-7295265B",
    ("on_demand", "u"): "L-43DA4232",
    ("on_demand", "hpc"): "L-F7808C92",
}
"""Quotas of vCPUs by market and class of types, "All ... Spot Instance Requests" and "Running On-Demand ... instances".
Capacity Blocks count in none.
Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""


def kind_of(machine: str, market: str | None = "on_demand") -> str:
    """The class of a machine type as quotas count it: `standard`, or the family's letters; on Spot `p5` for P5 and
    later.
    """
    letters = re.match(r"[a-z]+", machine)
    family = letters[0] if letters else machine
    if family in ("g", "gr", "vt"):
        return "g"
    if market == "spot" and re.match(r"p[5-9]", machine):
        return "p5"
    return "standard" if family[0] in _STANDARD and family not in ("dl", "inf", "mac", "trn", "hpc") else family
