"""A region's file of the price table: read, changed part by part, and written as a whole or not at all."""

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
    """What a cloud said of one part of a region's prices.

    Attributes:
        part: `on_demand`, `spot` or `services`.
        source: Where it was asked.
        found: Prices by machine type (USD an hour; a pair of low and high on Spot) or by service (USD).
        missing: What was asked for and is not in the answer.
        refused: Why there is no answer; None when there is one.
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
        """The parts with prices of machines that there are."""
        return {kind: part for kind, part in ((ON_DEMAND, self.on_demand), (SPOT, self.spot)) if part}

    def take(self, answer: Answer) -> None:
        """Put an answer in the place of what was there. A refusal changes nothing, and no service is lost by one.

        A machine that the answer does not have leaves the table: its old price has no date of its own.
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
    """A region of the table; an empty one where the table has none."""
    path = table.DATA / cloud / f"{name}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if name in table.regions(cloud) else {}
    return Region(cloud, name, found.get(ON_DEMAND), found.get(SPOT), found.get(SERVICES, {}))


def write(region: Region) -> None:
    """Write a region, a price a line so that a refresh is a readable diff; a reader sees the old file or the new."""
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
