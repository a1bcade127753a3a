"""A cloud's statements about its own capacity: the contract between its calls and the ranking.

An answer holds figures. Each has its value, its unit, the time at which the cloud said it, and the call that said it.
A value that the cloud does not tell is None, never zero. A call that failed is a `Gap` of the answer, not an
exception: advice goes on without it, and says so.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tidemill.errors import CloudError


class NoPermissionError(CloudError):
    """The login may not ask this; `what` is the action, and `fix` says who grants it."""


class ThrottledError(CloudError):
    """The cloud takes no more of these questions for now."""


class ApiOffError(CloudError):
    """The project has not enabled the API; `command` enables it."""


class NoAnswerError(CloudError):
    """The cloud did not answer in time, or what it answered cannot be read."""


@dataclass(frozen=True)
class Question:
    """A question to advice. Two questions that mean the same are equal once they are `normal`.

    Attributes:
        regions: Such as `us-west-2` or `us-central1`.
        types: Machine types in the order of interest: a call that takes one type each is made for the first of them
            only. GPUs that are attached to a type of GCP follow it: `n1-standard-8+1t4`.
        cpus: vCPUs that are wanted at the same time, all together.
        one_zone: Whether all machines must be in one zone.
    """

    regions: tuple[str, ...]
    types: tuple[str, ...]
    cpus: int
    one_zone: bool = False

    @property
    def normal(self) -> Question:
        """Without repetitions, its regions sorted. A cloud that counts questions sees an equal one as the same."""
        return Question(
            tuple(sorted(set(self.regions))), tuple(dict.fromkeys(self.types)), max(1, self.cpus), self.one_zone
        )


@dataclass(frozen=True)
class Figure:
    """A place and what was said of it.

    Attributes:
        region: Such as `us-west-2`.
        zone: Its name in the asking account, such as `us-west-2a`; None says that the figure is about the whole region.
        at: When the cloud said it, in UTC.
        source: The call, such as `ec2:GetSpotPlacementScores`.
    """

    region: str
    zone: str | None
    at: datetime.datetime
    source: str

    @property
    def as_of(self) -> datetime.date:
        """The day of `at`, as the price tables have it."""
        return self.at.date()


@dataclass(frozen=True)
class PlacementScore(Figure):
    """AWS: how likely a Spot request for the question's vCPUs is to succeed, if *all* its types may be used.

    One without a zone is about a request that may use every zone of the region. There is no score for a single type:
    AWS scores fewer than three types low, whatever they are.
    """

    unit: ClassVar[str] = "of 10"
    zone_id: str | None
    """Such as `usw2-az1`, which means the same in every account."""
    value: int
    """From 1 to 10; 10 is likely, and no promise."""


@dataclass(frozen=True)
class Range:
    """The least and the most, and how much of the time was looked at."""

    low: float
    high: float
    days: float
    """How far back the oldest price reaches; less than was asked for where the cloud remembers less."""


@dataclass(frozen=True)
class SpotPrice(Figure):
    """Price of a machine on Spot."""

    unit: ClassVar[str] = "USD/hour"
    type: str
    value: float | None
    """Now."""
    week: Range | None
    """Over the last 7 days; contains `value`."""
    quarter: Range | None
    """Over the last 90 days; contains `week`. On AWS of a few moments, so that the real range may be wider."""
    zone_id: str | None = None


@dataclass(frozen=True)
class RecommendedMachines:
    """A part of the fleet that the cloud recommends: so many machines of a type in a zone."""

    zone: str
    type: str
    machines: int


@dataclass(frozen=True)
class CapacityAdvice(Figure):
    """GCP: how likely Spot machines are to be there, if the cloud picks among all types of the question.

    The score belongs to `placed` as a whole, not to one type or zone.
    """

    unit: ClassVar[str] = "probability"
    machines: int
    """How many were asked for: as many of the question's first type as have its vCPUs."""
    value: float | None
    """Obtainability, from 0 to 1; from 0.7 it is high, below 0.4 low."""
    uptime: float | None
    """Seconds that most of the machines are expected to run before they are reclaimed; one of a few values."""
    placed: tuple[RecommendedMachines, ...]


@dataclass(frozen=True)
class ReclaimRate(Figure):
    """GCP: the part of a type's Spot machines that stopped because they were reclaimed, over all customers."""

    unit: ClassVar[str] = "of stopped machines"
    type: str
    value: float | None
    """From 0 to 1, the mean of the days."""
    days: int
    """How many days the mean is over."""


@dataclass(frozen=True)
class TypeOffering(Figure):
    """A machine type is sold in this zone, or, without a zone, somewhere in the region."""

    unit: ClassVar[str] = "offered"
    type: str
    value: bool
    """False: not in the region at all."""
    zone_id: str | None = None


@dataclass(frozen=True)
class CpuQuota(Figure):
    """The most vCPUs that the account may run at the same time, of a market and a class of types."""

    unit: ClassVar[str] = "vCPUs"
    market: str
    kind: str
    """As AWS counts them: `standard`, `g`, `p`, `p5`, `inf`, `trn`."""
    value: float | None


@dataclass(frozen=True)
class Gap:
    """A call without an answer, or with an older one than it should have.

    Attributes:
        source: The call.
        region: Where; empty for a call about all regions.
        error: Why. `error.fix` says what to do.
        at: When the figures that the answer has instead were said; None where it has none.
    """

    source: str
    region: str
    error: CloudError
    at: datetime.datetime | None = None

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.error}{f' Shown is the answer of {self.at:%Y-%m-%d %H:%M} UTC.' if self.at else ''}"


@dataclass(frozen=True)
class LiveAnswer:
    """All that a source said. Figures are in no particular order."""

    scores: tuple[PlacementScore, ...] = ()
    prices: tuple[SpotPrice, ...] = ()
    capacity: tuple[CapacityAdvice, ...] = ()
    reclaims: tuple[ReclaimRate, ...] = ()
    offered: tuple[TypeOffering, ...] = ()
    quotas: tuple[CpuQuota, ...] = ()
    gaps: tuple[Gap, ...] = ()


class LiveSource(Protocol):
    """Where live figures come from: a cloud, with the caller's own login."""

    def ask(self, question: Question) -> LiveAnswer:
        """Everything that the cloud tells, in few calls made side by side, within seconds.

        Raises:
            CallerError: The cloud's SDK is missing, or the profile does not exist. Whatever else fails is a gap.
        """
        ...
