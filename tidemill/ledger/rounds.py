"""Rounds: one enqueueing of some of a job's chunks each. Round 0 is the submit, each retry or resume is another."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from tidemill.manifest import ManifestIndex


class RoundArray(BaseModel):
    """One array of a round: child ``i`` runs the i-th of its chunks.

    Its chunks are a range (``first`` and ``count``) or, after a retry or resume, a list (``chunks``).
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(description="`<job>-r<round>-a<k>`: by it a submit that died finds what it had enqueued.")
    first: int = Field(default=0, ge=0)
    count: int = Field(default=0, ge=0)
    chunks: list[int] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> RoundArray:
        if self.size < 1 or (self.chunks is not None and self.count):
            raise ValueError("either first and count, or chunks, and at least one chunk")
        return self

    @property
    def size(self) -> int:
        """Chunks of the array."""
        return self.count if self.chunks is None else len(self.chunks)

    def chunk(self, index: int) -> int:
        """The chunk of a child.

        Raises:
            IndexError: There is no such child.
        """
        if not 0 <= index < self.size:
            raise IndexError(f"child {index} of {self.size}")
        return self.first + index if self.chunks is None else self.chunks[index]

    def all(self) -> range | list[int]:
        """Its chunks in order."""
        return range(self.first, self.first + self.count) if self.chunks is None else self.chunks


class Round(BaseModel):
    """`rounds/<r>.json`: what was enqueued. Written before enqueueing and never changed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    round: int = Field(ge=0)
    arrays: list[RoundArray] = Field(min_length=1)
    image: str = "default"
    definition: str | None = Field(
        default=None, description="AWS: the revision of the job definition, and so the image, that its containers have."
    )
    code: str | None = Field(default=None, description="SHA-256 of the shipped code, or None.")
    items: dict[int, list[int]] | None = Field(
        default=None, description="By chunk: the items that this round runs, where it does not run all of them."
    )
    failed_before: dict[int, int] = Field(
        default_factory=dict,
        description="By chunk: how many of the items that this round runs had failed before. It keeps `status` exact "
        "without reading a record.",
    )
    max_usd: float | None = Field(
        default=None, description="USD that the job may cost, all rounds together, where its spec says something else."
    )
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def chunks_total(self) -> int:
        """Chunks that were enqueued."""
        return sum(array.size for array in self.arrays)

    def has(self, chunk: int) -> bool:
        """Whether a chunk is part of it."""
        return any(chunk in array.all() for array in self.arrays)

    def runs_as(self, other: Round, chunk: int) -> bool:
        """Whether it runs a chunk as another round does: the same items, with the same code and image."""
        items = [(round_.items or {}).get(chunk) for round_ in (self, other)]
        code = [(round_.code, round_.image, round_.definition) for round_ in (self, other)]
        return items[0] == items[1] and code[0] == code[1]

    def size(self, chunk: int, index: ManifestIndex) -> int:
        """How many items of a chunk this round runs."""
        some = self.items.get(chunk) if self.items else None
        return index.size(chunk) if some is None else len(some)


def array_name(job: str, number: int, k: int) -> str:
    """The name of a round's k-th array, as the backend knows it."""
    return f"{job}-r{number}-a{k}"


def round_of(array: str) -> int:
    """The round of an array, by its name."""
    return int(array.rpartition("-r")[2].partition("-a")[0])
