"""Memory of a round's items, where that is not what the job asks for: checks, and which items need more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tidemill.capacity import more_memory_mib
from tidemill.client.arguments import memory_mib_of
from tidemill.client.plan.place import check_memory
from tidemill.client.site import Site
from tidemill.completion import owners
from tidemill.descriptor import Queue
from tidemill.errors import CallerError
from tidemill.job import PARTS, JobSpec
from tidemill.ledger import Ledger, Listing, Outcome, Round

LOOKED_AT = 20
"""Chunks with failures that a look reads: it has to answer soon."""


def asked_memory(site: Site, spec: JobSpec, queue: Queue, memory: str | float | None) -> int | None:
    """Memory in MiB that a caller asks for; None for none.

    Raises:
        CallerError: It is no size, no machine has it, or this pipeline's workers do not know of it.
    """
    memory_mib = memory_mib_of(memory, None)
    if memory_mib is None:
        return None
    newest, needed = site.descriptor.max_spec, PARTS["memory_max_mib"].since
    if newest < needed and not site.local:
        raise CallerError(
            f"memory is given, and this pipeline's workers read job specs up to version {newest}; it needs {needed}.",
            "Ask the stack's owner to run `pulumi up` with a newer worker, or submit another job.",
            what="memory",
        )
    item = spec.resources.model_copy(update={"memory_mib": int(memory_mib)})
    check_memory("memory", site.service(spec.queue), queue, item)
    return item.memory_mib


def memory_of(rounds: Sequence[Round], chunks: Collection[int]) -> int | None:
    """The most memory that items of these chunks had in their newest rounds; None for what the job asks for."""
    newest = owners(rounds)
    return max((rounds[newest[chunk]].memory_mib or 0 for chunk in chunks if chunk in newest), default=0) or None


def too_small(ledger: Ledger, spec: JobSpec, listing: Listing) -> tuple[dict[int, list[int]], int]:
    """The items that were killed for memory and may have more, by chunk, and how much: twice what they had."""
    wanted: dict[int, list[int]] = {}
    memory = 0
    for chunk, index, more in _larger(ledger, spec, listing, sorted(listing.failed)):
        wanted.setdefault(chunk, []).append(index)
        memory = max(memory, more)
    return wanted, memory


def may_grow(ledger: Ledger, spec: JobSpec, listing: Listing) -> bool:
    """True if an item of the first chunks with failures was killed for memory and may have more."""
    return any(_larger(ledger, spec, listing, sorted(listing.failed)[:LOOKED_AT]))


def _larger(ledger: Ledger, spec: JobSpec, listing: Listing, chunks: Iterable[int]) -> Iterator[tuple[int, int, int]]:
    """Chunk, index and next memory of each item that was killed for memory and may have more."""
    for chunk in chunks if spec.memory_max_mib else ():
        rounds = [number for number, done in listing.done.items() if chunk in done]
        for outcome in ledger.computed(chunk, rounds):
            if more := larger_memory(spec, outcome):
                yield chunk, outcome.index, more


def larger_memory(spec: JobSpec, outcome: Outcome) -> int | None:
    """The memory in MiB of the next attempt of an item that was killed for memory; None if it gets none."""
    if outcome.reason != "memory":
        return None
    return more_memory_mib(outcome.memory_mib or spec.resources.memory_mib, spec.memory_max_mib or 0)
