"""Outcomes of earlier jobs that stand: a new job of the same name shares them instead of running their items.

`--changed` lets an outcome stand if the item, the content of its input, the code and the settings are those of the
earlier job; `--new` if the item is. An outcome of a failure never stands.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from tidemill import layout
from tidemill.client.items.spool import Spool
from tidemill.client.journal import Journal, known_spec
from tidemill.client.sending.identity import IDENTITY, JobIdentity, image_content, known_identity
from tidemill.client.site import Site
from tidemill.client.upload.versions import Versions
from tidemill.errors import DamagedError, StoreMissingError
from tidemill.figures import origins_words
from tidemill.job import PARTS, JobSpec, SharedWith
from tidemill.ledger import Ledger, Listing, Round
from tidemill.ledger.outcome_sources import ended_chunks
from tidemill.ledger.shared import SharedOutcomes, SharedRound
from tidemill.manifest import read_lines
from tidemill.request import JobRequest
from tidemill.store import Store

EARLIER_JOBS = 20
"""Jobs of the name that are looked at, the newest first."""
_DAY = 86_400
_PARALLEL = 16
_SEEN = {
    "name",
    "queue",
    "resources",
    "memory_max_mib",
    "attempts",
    "timeout_seconds",
    "slots",
    "max_parallel",
    "after",
    "code",
    "inputs",
}
"""Parts of a job's identity that do not change a result, or that are compared by themselves."""
_NONE = -1


@dataclass
class Standing:
    """Outcomes that stand for the items of a new job.

    Attributes:
        items: How many items it has.
        shared: Where the outcomes are.
        versions: Of the inputs that its outcomes follow from.
        expired: Items whose outcome expires too soon to be shared.
        newest: The newest earlier job of the name.
    """

    items: int
    shared: SharedOutcomes
    versions: Versions
    expired: int = 0
    newest: JobSpec | None = None

    @property
    def left(self) -> int:
        """How many items run."""
        return self.items - len(self.shared)

    def runs(self) -> bytearray:
        """By item, 1 where it runs."""
        runs = bytearray(b"\1") * self.items
        for run in self.shared.runs():
            runs[run.first : run.first + run.items] = bytes(run.items)
        return runs

    def write(self, store: Store, spec: JobSpec) -> JobSpec:
        """Write down whose outcomes a new job shares, and with them that it does; returns its spec."""
        if not len(self.shared):
            return spec
        data = self.shared.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        store.put(layout.shared(spec.job, sha256), data)
        newer = max(spec.spec_version, PARTS["shared"].since)
        return spec.model_copy(
            update={"shared": SharedWith(document=sha256, jobs=self.shared.by_job), "spec_version": newer}
        )

    def words(self) -> str:
        """`20,000 items: 19,990 of words-a17f8d72, 10 of this job.`; or that all of them run."""
        some = origins_words(self.shared.by_job, self.items)
        shares = some if len(self.shared) else "no outcome of an earlier job stands, so all of them run"
        gone = f" {self.expired:,} of them ran before, but their results expire soon or have expired."
        return f"{self.items:,} items: {shares}.{gone if self.expired else ''}"

    def offer(self) -> str | None:
        """A remark for the caller of a job in full: how much of earlier ones stands; None where nothing does."""
        if not len(self.shared):
            return None
        return (
            f"`changed=True` would run {self.left:,} of the {self.items:,} items: the others are as in "
            f"{' and '.join(self.shared.by_job)}."
        )


def goes_on(site: Site, existing: JobSpec, versions: Versions, request: JobRequest) -> bool:
    """True if a job with the same items, code and settings is the one that is wanted: none of its inputs changed, it is
    not cancelled, none of its items has failed or was retried with other code, and the jobs that it shares outcomes of
    are there."""
    ledger = Ledger(site.store, existing.job, existing.manifest)
    try:
        listing, shared = ledger.listing(), ledger.shared()
        before = Versions.read(site.store, existing.job, existing.items_total)
    except (DamagedError, StoreMissingError):
        return False
    if shared and not all(known_spec(site.store, job) for job in shared.by_job):
        return False
    if listing.counts.failed or listing.counts.cancelled or any(map(partial(_other_code, listing), listing.rounds)):
        return False
    return request.new or all(versions.same(item, before, item) for item in range(existing.items_total))


def _other_code(listing: Listing, round_: Round) -> bool:
    """True for a retry with other code than the job was sent with, or with another image."""
    first = listing.rounds[0]
    return (round_.code, round_.definition) != (first.code, first.definition)


def recipe_of(spec: JobSpec, identity: JobIdentity) -> str:
    """Digest of what a result follows from, besides its item: the program and the settings that can change it."""
    values = {key: value for key, value in spec.model_dump(mode="json", include=IDENTITY - _SEEN).items() if value}
    return hashlib.sha256(
        json.dumps([values, image_content(spec.image_ref), identity.files], sort_keys=True).encode()
    ).hexdigest()


def find_standing(
    site: Site, request: JobRequest, draft: JobSpec, recipe: str, spool: Spool, *, journal: Journal, versions: Versions
) -> Standing:
    """Find the outcomes that stand for the items of a new job. Nothing is written."""
    oldest = _oldest(site)
    picked = _Picked(spool)
    standing = Standing(spool.count, SharedOutcomes([], b""), versions.copy())
    for spec in islice(journal.specs(draft.name), EARLIER_JOBS):
        standing.newest = standing.newest or spec
        if not picked.left:
            break
        try:
            earlier = _EarlierJob(site, spec, None if request.new else recipe, oldest, draft.output)
            picked.take(earlier, standing.versions, by_content=not request.new)
        except (DamagedError, StoreMissingError) as error:
            request.log(f"{spec.job} is passed over: {error}")
    standing.shared, standing.expired = picked.shared(), picked.expired
    return standing


def _oldest(site: Site) -> float:
    """Time before which a record is too old to be shared: the new job's own records would outlive it by half of their
    life or more."""
    days = site.descriptor.expire_jobs_after_days
    return 0.0 if days is None else site.account.now() - days * _DAY / 2


class _Picked:
    """Outcomes that were found for a new job's items, so far. 20 bytes an item."""

    def __init__(self, spool: Spool) -> None:
        self._hashes = array("q", map(hash, spool.lines()))
        self._source = array("i", [_NONE]) * spool.count
        self._origin = array("Q", [0]) * spool.count
        self._sources: dict[SharedRound, int] = {}
        self._too_old = bytearray(spool.count)
        self.left = spool.count

    @property
    def expired(self) -> int:
        return sum(old and source == _NONE for old, source in zip(self._too_old, self._source, strict=True))

    def take(self, earlier: _EarlierJob, versions: Versions, *, by_content: bool) -> None:
        """Take the outcomes of an earlier job that are missing."""
        numbers = [self._sources.setdefault(source, len(self._sources)) for source in earlier.sources]
        for item, source in enumerate(self._source):
            if source != _NONE:
                continue
            for index in earlier.find(self._hashes[item]):
                if by_content and not versions.same(item, earlier.versions, index):
                    continue
                found = earlier.source[index]
                if found == _NONE:
                    self._too_old[item] |= earlier.too_old[index]
                    continue
                self._source[item], self._origin[item] = numbers[found], earlier.origin[index]
                versions.keep(item, earlier.versions, index)
                self.left -= 1
                break

    def shared(self) -> SharedOutcomes:
        used = sorted(set(self._source) - {_NONE})
        sources = list(self._sources)
        again = {source: number for number, source in enumerate(used)}
        found = zip(range(len(self._source)), self._source, self._origin, strict=True)
        items = ((item, again[source], origin) for item, source, origin in found if source != _NONE)
        return SharedOutcomes.of([sources[number] for number in used], items)


class _EarlierJob:
    """An earlier job's outcomes that may stand, by item: from one listing and few records.

    Attributes:
        sources: Rounds that hold outcomes.
        source: By item, the number of the source of its outcome; -1 without one that may stand.
        origin: By item, its index there.
        too_old: By item, 1 where its outcome expires too soon.
        versions: Of its inputs.
    """

    def __init__(self, site: Site, spec: JobSpec, recipe: str | None, oldest: float, output: str | None) -> None:
        self._ledger, self._wanted, self._oldest = Ledger(site.store, spec.job, spec.manifest), recipe, oldest
        self._sent_at = spec.created_at.timestamp()
        identity = known_identity(site.store, spec.job)
        # A job of an earlier version does not say what its program was.
        self._recipe = "" if identity is None else recipe_of(spec, identity)
        self._numbers: dict[tuple[str, int, str], int] = {}
        self._at: list[float] = []
        self.versions = Versions()
        self.sources: list[SharedRound] = []
        same = spec.output == output if recipe is None else recipe == self._recipe
        self._hashes = array("q", map(hash, self._lines(spec) if same else ()))
        items = len(self._hashes)
        self.source, self.origin = array("i", [_NONE]) * items, array("Q", [0]) * items
        self.too_old = bytearray(items)
        if same:
            self._read(self._ledger.listing())
            self.sources = [
                SharedRound(job=job, round=number, recipe=made, at=self._at[n])
                for (job, number, made), n in self._numbers.items()
            ]
        if self.sources or any(self.too_old):
            self.versions = Versions.read(site.store, spec.job, items)
        self._order = array("Q", sorted(range(items), key=self._hashes.__getitem__))

    def _lines(self, spec: JobSpec) -> Iterator[bytes]:
        """The lines of its items. Another submitter has written the spec: how many it claims decides nothing.

        Raises:
            DamagedError: There are not as many as it claims.
        """
        lines = 0
        for line in read_lines(self._ledger.store, spec.job, self._ledger.index()):
            lines += 1
            yield line
        if lines != spec.items_total:
            claimed = f"{lines} items, and its spec claims {spec.items_total}"
            raise DamagedError(f"{self._ledger.store.uri_of(layout.manifest(spec.job))} has {claimed}.")

    def find(self, line: int) -> Iterator[int]:
        """The items with this hash of their line."""
        at = bisect_left(self._order, line, key=self._hashes.__getitem__)
        while at < len(self._order) and self._hashes[self._order[at]] == line:
            yield self._order[at]
            at += 1

    # ---- its outcomes -------------------------------------------------------------------------------------------

    def _read(self, listing: Listing) -> None:
        self._take_shared()
        ledger, index = self._ledger, self._ledger.index()
        often = Counter(chunk for done in listing.done.values() for chunk in done)
        begun = (
            ended_chunks(ledger.store, ledger.job, listing.rounds, listing.done.__getitem__) if listing.waiting else {}
        )
        for round_ in listing.rounds:
            if _other_code(listing, round_):
                continue
            number, done = round_.round, listing.done[round_.round]
            mixed = [chunk for chunk in done if often[chunk] > 1 or chunk in listing.failed]
            for chunk in done.keys() - set(mixed):
                first = index.frame(chunk).first
                ran = round_.runs(chunk) or range(first, first + index.size(chunk))
                self._take(number, done[chunk], ((item, "succeeded") for item in ran))
            unfinished = {chunk: begun[chunk].at for chunk in round_.enqueued() if chunk in begun and chunk not in done}
            with ThreadPoolExecutor(_PARALLEL) as pool:
                chunks = [*mixed, *unfinished]
                for chunk, part in zip(chunks, pool.map(partial(self._outcomes, number), chunks), strict=True):
                    self._take(number, done.get(chunk) or unfinished[chunk], part)

    def _outcomes(self, number: int, chunk: int) -> list[tuple[int, str]]:
        """Items of a chunk that have ended in a round, and how."""
        part = self._ledger.chunk(number, chunk)
        record = part.committed()
        outcomes = part.progress().values() if record is None else record.outcomes
        return [(outcome.index, outcome.status) for outcome in outcomes]

    def _take(self, number: int, at: float, outcomes: Iterable[tuple[int, str]]) -> None:
        for index, status in outcomes:
            if status == "succeeded":
                # The spec, without which no record is read, expires first.
                self._set(index, (self._ledger.job, number, self._recipe), min(at, self._sent_at), index)
            else:
                self.source[index] = _NONE

    def _take_shared(self) -> None:
        """Take over the outcomes that it shares itself: they are named by the job that computed them."""
        if (shared := self._ledger.shared()) is None:
            return
        store, sources = self._ledger.store, shared.sources
        there = {source.job: spec.items_total for source in sources if (spec := known_spec(store, source.job))}
        # Another submitter has written the document: it may be longer than this job, or name items that nobody has run.
        for run in shared.runs(0, len(self.source)):
            source = sources[run.source]
            if run.origin + run.items > there.get(source.job, 0) or self._wanted not in (None, source.recipe):
                continue
            for number in range(run.items):
                key = (source.job, source.round, source.recipe)
                self._set(run.first + number, key, source.at, run.origin + number)

    def _set(self, index: int, key: tuple[str, int, str], at: float, origin: int) -> None:
        if at < self._oldest:
            self.too_old[index] = 1
            return
        if (number := self._numbers.setdefault(key, len(self._at))) == len(self._at):
            self._at.append(at)
        self._at[number] = min(self._at[number], at)
        self.source[index], self.origin[index] = number, origin
