"""Commitments that a company pays in any case: reservations, savings plans, committed use.

A file lists them. Each has what it costs per hour, whatever runs, and its discount; it covers On-Demand machines worth
that amount before the discount, and never Spot machines, disks or addresses. Commitments belong to a billing account:
the stacks of one estimate draw from the same ones, in their order, so that nothing is covered twice.
Sources: https://docs.aws.amazon.com/savingsplans/latest/userguide/sp-applying.html and
https://docs.cloud.google.com/compute/docs/instances/committed-use-discounts-overview
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import click
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from components.config.errors import from_pydantic
from components.money import Line
from components.rooms import CLOUDS
from ops.prices.region import refuse_region
from tidemill.errors import nearest, one_line
from tidemill.machines import families


class Commitment(BaseModel):
    """One of them. Without `families` or `regions` it covers all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, description="A name for the table.")]
    cloud: Annotated[str, Field(description="Whose it is.")]
    usd_hour: Annotated[
        float,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="USD in every hour. Reservations: their number times the price of one, with its upfront part.",
        ),
    ]
    discount_percent: Annotated[
        float, Field(ge=0, lt=100, description="Percent below the On-Demand price: 28 for 28 %.")
    ]
    families: Annotated[tuple[str, ...], Field(description="Families that it is limited to: [c7i].")] = ()
    regions: Annotated[tuple[str, ...], Field(description="Regions that it is limited to: [us-west-2].")] = ()

    @field_validator("cloud")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in CLOUDS:
            raise ValueError(" or ".join(CLOUDS))
        return value

    @field_validator("discount_percent")
    @classmethod
    def _no_fraction(cls, value: float) -> float:
        if 0 < value < 1:
            raise ValueError("0, or 1 or more")
        return value

    @property
    def worth(self) -> float:
        """The On-Demand price of what an hour of it covers."""
        return self.usd_hour / (1 - self.discount_percent / 100)


def read(path: Path) -> list[Commitment]:
    """The commitments of a YAML file.

    Raises:
        click.UsageError: The file is not a list of them; the message names the entry and its key.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8")) or []
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.UsageError(f"{path} cannot be read: {one_line(error)}. docs/money.md shows a file.") from None
    if not isinstance(entries, list):
        raise click.UsageError(f"{path} has no list of commitments. Begin each with `- `; docs/money.md shows a file.")
    return [_commitment(f"{path}, entry {number}: ", entry) for number, entry in enumerate(entries, start=1)]


def _commitment(where: str, entry: object) -> Commitment:
    try:
        found = Commitment.model_validate(entry)
    except ValidationError as error:
        raise click.UsageError(str(from_pydantic(error, Commitment, root=where))) from None
    known = families(found.cloud)
    for number, each in enumerate(found.families):
        if each not in known:
            guess = nearest(each, known).strip() or "docs/families.md has the families."
            raise click.UsageError(f"{where}families[{number}]: {found.cloud} has no family {each}. {guess}")
    for region in found.regions:
        refuse_region(found.cloud, region, f"{where}regions: ")
    return found


@dataclass(frozen=True)
class Cover:
    """The covered part of a line, in USD at the On-Demand price: of its low end and of its high end."""

    low: float
    high: float


class Pool:
    """The commitments of an hour, as stacks draw from them."""

    def __init__(self, commitments: Sequence[Commitment]) -> None:
        self._all = commitments
        self._left = {side: [each.worth for each in commitments] for side in ("low", "high")}

    def used(self) -> list[tuple[Commitment, Cover]]:
        """Each commitment with the part that the stacks have drawn."""
        left = zip(self._all, self._left["low"], self._left["high"], strict=True)
        return [(each, Cover(each.worth - low, each.worth - high)) for each, low, high in left]

    def cover(self, cloud: str, region: str, lines: Iterable[Line]) -> list[Cover]:
        """Cover the lines of a stack, in their order."""
        return [self._line(cloud, region, line) for line in lines]

    def _line(self, cloud: str, region: str, line: Line) -> Cover:
        if line.market != "on_demand":
            return Cover(0.0, 0.0)
        fitting = [
            number
            for number, each in enumerate(self._all)
            if each.cloud == cloud
            and (not each.regions or region in each.regions)
            # The cloud picks among a rung's types: what covers only some of them may cover nothing.
            and (not each.families or {*line.families} <= {*each.families})
        ]
        # The narrow ones first, as both clouds do: they would lapse otherwise.
        fitting.sort(key=lambda number: (not self._all[number].families, not self._all[number].regions))
        return Cover(self._draw("low", line.usd_low, fitting), self._draw("high", line.usd_high, fitting))

    def _draw(self, side: str, usd: float | None, fitting: Sequence[int]) -> float:
        wanted = rest = usd or 0.0
        for number in fitting:
            taken = min(rest, self._left[side][number])
            self._left[side][number] -= taken
            rest -= taken
        return wanted - rest
