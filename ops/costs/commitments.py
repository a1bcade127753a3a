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
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator

from components.money import Line
from components.rooms import CLOUDS
from tidemill.machines import families


class Commitment(BaseModel):
    """One of them. Without `families` or `regions` it covers all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    cloud: str
    usd_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Paid in every hour. Of reservations: their number times the price of an hour, with the upfront part."""
    discount_percent: Annotated[float, Field(ge=0, lt=100)]
    """Below the On-Demand price."""
    families: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()

    @field_validator("cloud")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in CLOUDS:
            raise ValueError(f"is {value!r}; it must be one of {', '.join(CLOUDS)}")
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
        found = TypeAdapter(list[Commitment]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")) or [])
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        entry, *keys = (*first["loc"], "") if first["loc"] else ("the file", "")
        where = f"entry {entry + 1}" if isinstance(entry, int) else entry
        key = ".".join(str(each) for each in keys if each != "")
        problem = f"{path}, {where}{f', {key}' if key else ''}: {first['msg']}."
        raise click.UsageError(f"{problem} docs/money.md shows a file.") from None
    for each in found:
        if unknown := sorted({*each.families} - families(each.cloud).keys()):
            raise click.UsageError(f"{path}, {each.name}: {each.cloud} has no family {', '.join(unknown)}.")
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

    def usd_hour(self, cloud: str) -> float:
        """The sum of a cloud's commitments, paid in every hour."""
        return sum(each.usd_hour for each in self._all if each.cloud == cloud)

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
