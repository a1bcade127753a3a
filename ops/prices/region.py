"""A region's file of the price table: changed part by part, and written atomically."""

import datetime
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError

import click

from components.rooms import cloud_room
from tidemill.errors import nearest
from tidemill.folders import replace_file
from tidemill.prices import table
from tidemill.prices.table import VALUES

OFFERINGS, ON_DEMAND, SPOT, INTERRUPTION, SERVICES = "offerings", "on_demand", "spot", "interruption", "services"


def today() -> datetime.date:
    """The day in UTC, whatever the machine's zone."""
    return datetime.datetime.now(datetime.UTC).date()


class RefusedError(Exception):
    """A cloud cannot be asked at all."""


def why(error: Exception) -> str:
    """The reason why a cloud did not answer. urllib wraps the reason in one of its own, without a word more."""
    if isinstance(error, URLError) and not isinstance(error, HTTPError):
        return f"no answer: {error.reason}"
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Answer:
    """A cloud's answer about one part of a region's prices.

    Attributes:
        part: `offerings`, `on_demand`, `spot`, `interruption` or `services`.
        source: What was asked.
        found: By machine type, the ids of the zones that have it, USD per hour (on Spot a pair of low and high), or the
            percentages between which interruptions are; or USD by service.
        missing: What the answer lacks.
        refused: Why there is no answer; None if there is one.
        as_of: The day from which it is.
    """

    part: str
    source: str
    found: Mapping[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    refused: str | None = None
    as_of: datetime.date = field(default_factory=today)


@dataclass(frozen=True)
class ChangeCount:
    """How many values of a part an answer changed."""

    new: int
    other: int
    gone: int


@dataclass
class Region:
    """The prices of a region."""

    cloud: str
    name: str
    parts: dict[str, dict[str, Any]]
    """The parts that have a value per machine type."""
    services: dict[str, dict[str, Any]]

    def dated(self, part: str) -> str | None:
        """The day of a part, of the newest service; None if there is none."""
        if part == SERVICES:
            return max((row["as_of"] for row in self.services.values()), default=None)
        return self.parts[part]["as_of"] if part in self.parts else None

    def lacks(self, type: str) -> bool:  # noqa: A002
        """True if the region is known not to have a machine type."""
        return self.parts.get(OFFERINGS, {}).get(VALUES[OFFERINGS], {}).get(type) == []

    def loses(self, answer: Answer) -> tuple[int, int]:
        """How many values of a part an answer lacks, and how many there are. Services that it lacks stay."""
        known = self.parts.get(answer.part, {}).get(VALUES.get(answer.part, ""), {})
        return len(known.keys() - answer.found.keys()), len(known)

    def take(self, answer: Answer) -> ChangeCount:
        """Replace a part with an answer. A refusal changes nothing, and services missing from an answer stay.

        A machine missing from the answer leaves the table: its old price would have no date of its own.
        """
        if answer.refused is not None or not answer.found:
            return ChangeCount(0, 0, 0)
        head = {"as_of": answer.as_of.isoformat(), "source": answer.source}
        if answer.part == SERVICES:
            before = {name: row["usd"] for name, row in self.services.items() if name in answer.found}
            rows = {name: {"usd": usd, **head} for name, usd in answer.found.items()}
            self.services = dict(sorted((self.services | rows).items()))
        else:
            key = VALUES[answer.part]
            before = self.parts.get(answer.part, {}).get(key, {})
            self.parts[answer.part] = {**head, key: dict(answer.found)}
        both = before.keys() & answer.found.keys()
        other = sum(before[name] != answer.found[name] for name in both)
        return ChangeCount(len(answer.found) - len(both), other, len(before) - len(both))


def read(cloud: str, name: str) -> Region:
    """A region of the table; an empty one if the table does not have it."""
    content = table.content(cloud, name)
    return Region(cloud, name, {part: content[part] for part in VALUES if part in content}, content.get(SERVICES, {}))


def write(region: Region) -> None:
    """Write a region atomically. The same prices make the same text, one price per line."""
    folder = table.DATA / region.cloud
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / f"{region.name}{table.SUFFIX}", gzip.compress(text(region).encode(), mtime=0), 0o644)


def text(region: Region) -> str:
    """The file's content before compression: JSON with one value per line."""
    parts = [f'  "cloud": {json.dumps(region.cloud)}', f'  "region": {json.dumps(region.name)}']
    for kind, key in VALUES.items():
        if part := region.parts.get(kind):
            head = "".join(f"    {json.dumps(name)}: {json.dumps(part[name])},\n" for name in ("as_of", "source"))
            parts.append(f'  "{kind}": {{\n{head}    "{key}": {{\n{_rows(part[key], 6)}\n    }}\n  }}')
    services = f"{{\n{_rows(region.services, 4)}\n  }}" if region.services else "{}"
    parts.append(f'  "{SERVICES}": {services}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rows(values: Mapping[str, Any], indent: int) -> str:
    return ",\n".join(f"{' ' * indent}{json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())


def refuse_region(cloud: str, name: str, where: str = "--region ") -> None:
    """Refuse a name that no region of a cloud has, such as a zone's.

    Args:
        where: The beginning of the error.

    Raises:
        click.UsageError: It is such a name.
    """
    if not re.fullmatch(cloud_room(cloud, "keys").PLACES[f"{cloud}:region"]["pattern"], name):
        raise click.UsageError(f"{where}{name}: {cloud} has no such region.{nearest(name, table.covered(cloud))}")
