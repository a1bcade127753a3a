"""The clouds' machine types: a dated table per cloud.

``data/<cloud>.json`` holds a cloud's types, one row per line, and is read when a type is asked for. None is unknown,
never zero. Prices and interruptions differ by region and are in `tidemill.prices`.
"""

from __future__ import annotations

from tidemill.machines.catalog import MachineType, Table, cpus_of, families, find, table

__all__ = ["MachineType", "Table", "cpus_of", "families", "find", "table"]
