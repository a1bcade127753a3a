"""`job://` among a job's items and inputs: names become full ids, and the other jobs are waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidemill.chain import SCHEME, JobUri, parse
from tidemill.client.items.source import BLOCK_ITEMS, Block, ItemSource
from tidemill.client.journal import find_spec
from tidemill.client.rounds.predecessors import check_after
from tidemill.client.site import Log, Site
from tidemill.errors import CallerError
from tidemill.job import JobSpec, Predecessor, spec_version
from tidemill.ledger.gate import look


class References:
    """The jobs that items and inputs of a new job refer to, by full id in `specs`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._by_name: dict[str, JobSpec] = {}

    def find(self, job: str) -> JobSpec:
        """The spec of a job by its id or name.

        Raises:
            CallerError: There is no such job.
        """
        if job not in self._by_name:
            self._by_name[job] = find_spec(self._site.store, job)
        return self._by_name[job]

    def full(self, uri: str, what: str = "items") -> str:
        """A reference with the job's id in place of its name.

        Raises:
            CallerError: It is not a reference, or there is no such job or item.
        """
        wanted = parse(uri, what)
        spec = self.find(wanted.job)
        if wanted.item not in (None, "*") and int(wanted.item) >= spec.items_total:
            allowed = f"an item from 0 to {spec.items_total - 1}"
            raise CallerError.about(what, uri, allowed, "Correct the index.")
        return str(replace(wanted, job=spec.job))

    def of_inputs(self, inputs: Mapping[str, str]) -> dict[str, str]:
        """Named inputs, with full ids in their references."""
        uris = {}
        for name, uri in inputs.items():
            uris[name] = self.full(uri, f"input {name}") if uri.startswith(SCHEME) else uri
            if uris[name].startswith(SCHEME) and parse(uris[name]).item == "*":
                raise CallerError.about(f"input {name}", uri, "one folder or file", "Leave /* out, or name an item.")
        return uris

    def waited_for(self, draft: JobSpec, log: Log) -> JobSpec:
        """A draft that also waits for these jobs."""
        waited = {predecessor.job for predecessor in draft.after}
        jobs = dict.fromkeys(spec.job for spec in self._by_name.values())
        more = [Predecessor(job=job) for job in jobs if job not in waited]
        if not more:
            return draft
        for predecessor in more:
            check_after(self._site, "job", f"{SCHEME}{predecessor.job}", predecessor)
            if look(self._site.store, [predecessor]).waits:
                log(f"It starts when {predecessor.job} is complete, because it reads what that leaves.")
        draft = draft.model_copy(update={"after": [*draft.after, *more]})
        return draft.model_copy(update={"spec_version": max(draft.spec_version, spec_version({"after": more}))})


class JobItems:
    """An item for each item of another job: the folder with its output or state, or a file of it."""

    def __init__(self, wanted: JobUri, spec: JobSpec) -> None:
        self._wanted = replace(wanted, job=spec.job)
        self._count = spec.items_total
        self.label = str(self._wanted)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Block]:
        for start in range(0, self._count, BLOCK_ITEMS):
            numbers = range(start, min(start + BLOCK_ITEMS, self._count))
            yield Block([str(replace(self._wanted, item=number)) for number in numbers], list(numbers))

    def where(self, place: int) -> str:
        """See `ItemSource`."""
        return f"item {place} of {self.label}"


class FullIds:
    """Items of another source, with full ids in their references."""

    def __init__(self, source: ItemSource, references: References) -> None:
        self._source, self._references = source, references
        self.label = source.label

    def __iter__(self) -> Iterator[Block]:
        for block in self._source:
            if any(isinstance(uri, str) and uri.startswith(SCHEME) for uri in block.uris):
                yield replace(block, uris=[self._full(uri) for uri in block.uris])
            else:
                yield block

    def _full(self, uri: str) -> str:
        if not isinstance(uri, str) or not uri.startswith(SCHEME):
            return uri
        full = self._references.full(uri)
        if parse(full).item == "*":
            raise CallerError.about("items", uri, "one item", f"Give it as the only source: `items='{uri}'`.")
        return full

    def where(self, place: int) -> str:
        """See `ItemSource`."""
        return self._source.where(place)


def items_of(uri: str, references: References) -> JobItems:
    """The items that `--items job://JOB/output` stands for.

    Raises:
        CallerError: It names one item, or there is no such job.
    """
    wanted = parse(uri)
    if wanted.item not in (None, "*"):
        raise CallerError.about("items", uri, "all items of a job", "Give a single item in a list.")
    return JobItems(wanted, references.find(wanted.job))
