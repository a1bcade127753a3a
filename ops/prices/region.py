"""A region's file of the price table: changed part by part, and written atomically."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidemill.prices import table

ON_DEMAND, SPOT, SERVICES = "on_demand", "spot", "services"


@dataclass(frozen=True)
class Answer:
    """A cloud's answer about one part of a region's prices.

    Attributes:
        part: `on_demand`, `spot` or `services`.
        source: The API that was asked.
        found: Prices by machine type (USD per hour; on Spot a pair of low and high) or by service (USD).
        missing: What the answer lacks.
        refused: Why there is no answer; None if there is one.
    """

    part: str
    source: str
    found: Mapping[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    refused: str | None = None


@dataclass
class Region:
    """The prices of a region."""

    cloud: str
    name: str
    on_demand: dict[str, Any] | None
    spot: dict[str, Any] | None
    services: dict[str, dict[str, Any]]

    def machines(self) -> dict[str, dict[str, Any]]:
        """The parts that have machine prices."""
        return {kind: part for kind, part in ((ON_DEMAND, self.on_demand), (SPOT, self.spot)) if part}

    def take(self, answer: Answer) -> None:
        """Replace a part with an answer. A refusal changes nothing, and services missing from an answer stay.

        A machine missing from the answer leaves the table: its old price would have no date of its own.
        """
        if answer.refused is not None or not answer.found:
            return
        today = datetime.date.today().isoformat()
        if answer.part == SERVICES:
            rows = {name: {"usd": usd, "as_of": today, "source": answer.source} for name, usd in answer.found.items()}
            self.services = dict(sorted((self.services | rows).items()))
        else:
            setattr(self, answer.part, {"as_of": today, "source": answer.source, "usd_hour": dict(answer.found)})


def read(cloud: str, name: str) -> Region:
    """A region of the table; an empty one if the table does not have it."""
    path = table.DATA / cloud / f"{name}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if name in table.regions(cloud) else {}
    return Region(cloud, name, found.get(ON_DEMAND), found.get(SPOT), found.get(SERVICES, {}))


def write(region: Region) -> None:
    """Write a region atomically, one price per line so that a refresh is a readable diff."""
    folder = table.DATA / region.cloud
    folder.mkdir(parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(dir=folder, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(_text(region))
        os.chmod(path, 0o644)
        os.replace(path, folder / f"{region.name}.json")
    except BaseException:
        os.unlink(path)
        raise


def _text(region: Region) -> str:
    parts = [f'  "cloud": {json.dumps(region.cloud)}', f'  "region": {json.dumps(region.name)}']
    for kind, part in region.machines().items():
        head = "".join(f"    {json.dumps(key)}: {json.dumps(part[key])},\n" for key in ("as_of", "source"))
        rows = _rows(part["usd_hour"], 6)
        parts.append(f'  "{kind}": {{\n{head}    "usd_hour": {{\n{rows}\n    }}\n  }}')
    services = f"{{\n{_rows(region.services, 4)}\n  }}" if region.services else "{}"
    parts.append(f'  "{SERVICES}": {services}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rows(values: Mapping[str, Any], indent: int) -> str:
    return ",\n".join(f"{' ' * indent}{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
