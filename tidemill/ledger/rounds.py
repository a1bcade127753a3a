"""Rounds: one enqueueing of some of a job's chunks each. Round 0 is the submit, each retry or resume is another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from tidemill.ledger.chosen_rows import ChosenRows, encode

if TYPE_CHECKING:
    from tidemill.manifest import ManifestIndex


class RoundArray(BaseModel):
    """One array of a round: child ``i`` runs the i-th of its chunks.

    Its chunks are a range (``first`` and ``count``) or, after a retry or resume, a list: here (``chunks``), or as many
    rows of the object next to a large round (``rows``).
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str = Field(description="`<job>-r<round>-a<k>`: by it a submit that died finds what it had enqueued.")
    first: int = Field(default=0, ge=0)
    count: int = Field(default=0, ge=0)
    chunks: list[int] | None = None
    rows: int = Field(default=0, ge=0)
    _chosen: ChosenRows | None = PrivateAttr(None)
    _start: int = PrivateAttr(0)

    @model_validator(mode="after")
    def _one_form(self) -> RoundArray:
        if self.size < 1 or (self.chunks is not None) + (self.count > 0) + (self.rows > 0) > 1:
            raise ValueError("either first and count, or chunks, or rows, and at least one chunk")
        return self

    @property
    def size(self) -> int:
        return self.count or self.rows if self.chunks is None else len(self.chunks)

    def chunk(self, index: int) -> int:
        """The chunk of a child; `IndexError` if there is no such child."""
        if not 0 <= index < self.size:
            raise IndexError(f"child {index} of {self.size}")
        if self._chosen:
            return self._chosen.row(self._start + index).chunk
        return self.first + index if self.chunks is None else self.chunks[index]

    def all(self) -> range | list[int]:
        if self._chosen:
            return self._chosen.chunks[self._start : self._start + self.rows]
        return range(self.first, self.first + self.count) if self.chunks is None else self.chunks


class Round(BaseModel):
    """`rounds/<r>.json`: what was enqueued. Written before enqueueing and never changed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    round: int = Field(ge=0)
    arrays: list[RoundArray] = Field(description="None only where every outcome is shared.")
    image: str = "default"
    definition: str | None = Field(
        default=None, description="AWS: the revision of the job definition, and so the image, that its containers have."
    )
    code: str | None = Field(default=None, description="SHA-256 of the shipped code, or None.")
    code_origin: str | None = Field(default=None, description="The repository at the commit that the code is from.")
    items: dict[int, list[int]] | None = Field(
        default=None, description="By chunk: the items that this round runs, where it does not run all of them."
    )
    failed_before: dict[int, int] = Field(
        default_factory=dict,
        description="By chunk: how many of the items that this round runs had failed before. It keeps `status` exact "
        "without reading a record.",
    )
    memory_mib: int | None = Field(
        default=None,
        exclude_if=lambda memory: memory is None,
        description="Memory of an item in MiB, where its spec says something else.",
    )
    max_usd: float | None = Field(
        default=None, description="USD that the job may cost, all rounds together, where its spec says something else."
    )
    chosen: str | None = Field(
        default=None, description="SHA-256 of the object that holds chunks, items and failed_before of a large round."
    )
    shared: str | None = Field(
        default=None,
        description="SHA-256 of the document that says where the outcomes of the items are which the first round does "
        "not run.",
    )
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    _chosen: ChosenRows | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _some_chunk(self) -> Round:
        if not self.arrays and self.shared is None:
            raise ValueError("at least one array")
        return self

    def apart(self) -> tuple[Round, bytes]:
        """The round with its lists taken out, and the object that holds them."""
        chunks = [chunk for array in self.arrays for chunk in array.all()]
        data = encode(chunks, self.items or {}, self.failed_before)
        arrays = [RoundArray(name=array.name, rows=array.size) for array in self.arrays]
        sha256 = hashlib.sha256(data).hexdigest()
        changes = {"arrays": arrays, "items": None, "failed_before": {}, "chosen": sha256}
        return self.model_copy(update=changes), data

    def attach(self, chosen: ChosenRows) -> None:
        """Set where the lists that were taken out are read."""
        self._chosen = chosen
        start = 0
        for array in self.arrays:
            array._chosen, array._start = chosen, start
            start += array.size

    @property
    def chunks_total(self) -> int:
        return sum(array.size for array in self.arrays)

    def enqueued(self) -> Iterator[int]:
        """Its chunks."""
        return (chunk for array in self.arrays for chunk in array.all())

    def has(self, chunk: int) -> bool:
        if self._chosen:
            return self._chosen.find(chunk) is not None
        return any(chunk in array.all() for array in self.arrays)

    def runs(self, chunk: int) -> list[int] | None:
        """The items of a chunk that it runs; None for all of them."""
        if self._chosen:
            row = self._chosen.find(chunk)
            return row.items if row else None
        return self.items.get(chunk) if self.items else None

    def had_failed(self, chunk: int) -> int:
        if self._chosen:
            row = self._chosen.find(chunk)
            return row.failed_before if row else 0
        return self.failed_before.get(chunk, 0)

    def runs_as(self, other: Round, chunk: int) -> bool:
        """True if it runs a chunk as another round does: the same items, with the same code and image."""
        items = [round_.runs(chunk) for round_ in (self, other)]
        code = [(round_.code, round_.image, round_.definition) for round_ in (self, other)]
        return items[0] == items[1] and code[0] == code[1]

    def size(self, chunk: int, index: ManifestIndex) -> int:
        some = self.runs(chunk)
        return index.size(chunk) if some is None else len(some)


def array_name(job: str, number: int, k: int) -> str:
    return f"{job}-r{number}-a{k}"


def round_of(array: str) -> int:
    return int(array.rpartition("-r")[2].partition("-a")[0])
