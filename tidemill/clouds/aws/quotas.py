"""Quotas of vCPUs, by market and class of machine types."""

from __future__ import annotations

import re

_STANDARD = "acdhimrtz"
QUOTAS = {
    ("spot", "standard"): "L-34B43A08",
    ("spot", "g"): "L-3819A6DF",
    ("spot", "p"): "L-7212CCBC",
    ("on_demand", "standard"): "L-1216C47A",
    ("on_demand", "g"): "L-DB2E81BA",
    ("on_demand", "p"): "L-417A185B",
}
"""Quotas of vCPUs by market and class of types, "All ... Spot Instance Requests" and "Running On-Demand ... instances".
Other classes have quotas of their own and are not looked at.
Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html"""


def kind_of(machine: str) -> str:
    """The class of a machine type as quotas count it: `standard`, or the family's letters."""
    letters = re.match(r"[a-z]+", machine)
    family = letters[0] if letters else machine
    if family in ("g", "gr", "vt"):
        return "g"
    return "standard" if family[0] in _STANDARD and family not in ("dl", "inf", "mac", "trn", "hpc") else family
