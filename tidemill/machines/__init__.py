"""The clouds' machine types: a dated table per cloud.

``data/<cloud>.json`` holds a cloud's types, one row per line, and ``data/families.json`` what else a stack needs to
know of their families (docs/families.md). Both are read when a type is asked for. None is unknown, never zero. Prices
and interruptions differ by region and are in `tidemill.prices`.
"""

from __future__ import annotations

from tidemill.machines.catalog import Family, MachineType, Table, cpus_of, families, family, find, table

__all__ = ["Family", "MachineType", "Table", "cpus_of", "families", "family", "find", "table"]
