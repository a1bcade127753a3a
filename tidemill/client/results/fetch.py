"""Bring a job's results down: the outputs of its items as files of this machine, under names that people gave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tidemill import layout
from tidemill.client.arguments import folder_path, indexes
from tidemill.client.results.downloads import Downloads, full, unwritable
from tidemill.client.results.fetch_logs import fetch_logs
from tidemill.client.results.fetch_report import FetchReport
from tidemill.client.results.fetch_state import fetch_state
from tidemill.client.results.fetch_target import FetchContext, FetchTarget
from tidemill.client.results.item_names import ItemNames, UsedNames, ending_of, safe_path
from tidemill.client.results.requests import FetchRequest
from tidemill.client.site import Site
from tidemill.client.watch.watched import WatchedJob
from tidemill.errors import CallerError, ObjectNameError, StoreDeniedError, StoreMissingError, one_line
from tidemill.job import Item, JobSpec
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.outcome_items import items_of, paired
from tidemill.store import Entry, Store
from tidemill.store.ahead import in_order

LISTED_TOGETHER = 100
"""A share of the items: from a hundredth of them on, one listing of all outputs is shorter than one per item."""
_LISTINGS = 16
_LOOK_SECONDS = 0.1


class _ItemOutputs(NamedTuple):
    """Outputs of an item."""

    item: int
    name: str
    store: Store
    prefix: str
    files: list[Entry]
    problem: str = ""
    """Why they cannot be listed."""


def fetch(job: WatchedJob, wish: FetchRequest) -> FetchReport:
    """See `Job.fetch`."""
    site, ledger, spec, folder = job.site, job.ledger, job.spec, folder_path(wish.folder)
    if wish.failed and not (wish.logs or wish.state):
        problem = "failed is given without logs or state, and items that failed have no outputs."
        raise CallerError(problem, "Fetch their logs: `logs=True`.", what="failed")
    names = ItemNames(wish.name, lambda: items_of(ledger))
    wanted = None if wish.items is None else set(indexes(wish.items, spec.items_total))
    if wish.failed:
        failed = {outcome.index for outcome in ledger.outcomes() if outcome.status == "failed"}
        wanted = failed if wanted is None else wanted & failed
    report = FetchReport(spec.job, str(folder), spec.items_total if wanted is None else len(wanted))
    look = _now_and_then(lambda: wish.on_report(report))
    with closing(_target(folder, wish.overwrite)) as target:
        how = FetchContext(target, wanted, names, report.moved.problems, look)
        if wish.failed:
            # They have no outputs.
            report.complete = report.items
        else:
            _fetch_outputs(_Outputs(site, ledger, spec, names, report), how, report)
        if wish.logs:
            report.logs = fetch_logs(site.account, ledger, spec, how)
        if wish.state:
            report.states = fetch_state(ledger, spec, how)
    wish.on_report(report)
    return report


def _target(folder: Path, overwrite: bool) -> FetchTarget:
    try:
        return FetchTarget(folder, overwrite)
    except OSError as error:
        raise full(folder, error) or unwritable(folder, error) from None


def _fetch_outputs(outputs: _Outputs, how: FetchContext, report: FetchReport) -> None:
    try:
        with Downloads(how.target, report.moved, how.look) as downloads:
            for item_outputs in outputs.find(how.wanted):
                for entry, target in _targets(item_outputs, outputs.names.of_files):
                    downloads.add(item_outputs.store, entry, target)
                report.complete += 1
    except StoreDeniedError as error:
        raise _refused(error, report) from error


def _now_and_then(look: Callable[[], None]) -> Callable[[], None]:
    due = 0.0

    def maybe() -> None:
        nonlocal due
        if time.monotonic() >= due:
            look()
            due = time.monotonic() + _LOOK_SECONDS

    return maybe


def _refused(error: StoreDeniedError, report: FetchReport) -> StoreDeniedError:
    advice = (
        f"Log in again, or ask the stack's owner for access; then repeat the command. {report.moved.files} files came, "
        "and it fetches only what is missing."
    )
    return StoreDeniedError(error.problem, advice, code=error.code, what="output")


class _Outputs:
    """Finds the outputs of items, and notes in a report which items have none."""

    def __init__(self, site: Site, ledger: Ledger, spec: JobSpec, names: ItemNames, report: FetchReport) -> None:
        self._ledger, self._spec, self.names, self._report = ledger, spec, names, report
        self._stores = site.stores()

    def find(self, wanted: set[int] | None) -> Iterator[_ItemOutputs]:
        count = self._spec.items_total if wanted is None else len(wanted)
        found = ((outcome.index, name, outcome.output or "") for outcome, name in self._succeeded(wanted))
        own = self._spec.output is None and self._ledger.store.is_object_store
        if own and count > self._spec.items_total // LISTED_TOGETHER:
            yield from self._listed_together(found)
        else:
            yield from self._listed_each(found)

    # ---- which items have outputs -------------------------------------------------------------------------------

    def _succeeded(self, wanted: set[int] | None) -> Iterator[tuple[Outcome, str]]:
        """Items with outputs, each with its name in the folder."""
        report = self._report
        last = -1
        ended: set[int] = set()
        for outcome, item in self._with_items(wanted):
            if wanted is None:
                for index in range(last + 1, outcome.index):
                    report.unfinished.add(index)
                last = outcome.index
            else:
                ended.add(outcome.index)
            if outcome.status == "failed":
                report.failed.add(outcome.index)
            elif outcome.output is None:
                report.complete += 1
            else:
                yield outcome, self.names.of(item)
        for index in range(last + 1, self._spec.items_total) if wanted is None else sorted(wanted - ended):
            report.unfinished.add(index)

    def _with_items(self, wanted: set[int] | None) -> Iterator[tuple[Outcome, Item]]:
        if wanted is None:
            return paired(self._ledger)
        chunks = {self._ledger.index().chunk_of(item) for item in wanted}
        return (pair for pair in paired(self._ledger, chunks) if pair[0].index in wanted)

    # ---- where their files are ----------------------------------------------------------------------------------

    def _listed_together(self, items: Iterable[tuple[int, str, str]]) -> Iterator[_ItemOutputs]:
        """By one listing of the outputs of each job that computed some. It also holds those of attempts that do not
        count."""
        prefix = self._ledger.store.uri_of(f"{layout.OUT}/")
        attempts: dict[str, str] = {}
        # By job and item there: the attempt, and which items here have its outputs, with their names. An attempt's id
        # is shared by the items of a chunk.
        jobs: dict[str, dict[int, tuple[str, list[tuple[int, str]]]]] = {}
        elsewhere: list[tuple[int, str, str]] = []
        for number, name, uri in items:
            job, index, attempt = (*uri.removeprefix(prefix).rstrip("/").split("/"), "", "", "")[:3]
            if not (uri.startswith(prefix) and index.isdecimal() and attempt):
                elsewhere.append((number, name, uri))
                continue
            _, here = jobs.setdefault(job, {}).setdefault(int(index), (attempts.setdefault(attempt, attempt), []))
            here.append((number, name))
        yield from self._listed_each(elsewhere)
        for job, waiting in jobs.items():
            if job == self._spec.job or len(waiting) > self._spec.items_total // LISTED_TOGETHER:
                yield from self._listed_of(job, waiting)
            else:
                yield from self._listed_each(self._each(job, waiting))

    def _listed_of(self, job: str, waiting: dict[int, tuple[str, list[tuple[int, str]]]]) -> Iterator[_ItemOutputs]:
        store, prefix = self._ledger.store, f"{layout.out(job)}/"
        try:
            for index, entries in groupby(
                store.entries(prefix), key=lambda entry: entry.name[len(prefix) :].partition("/")[0]
            ):
                attempt, here = waiting.get(int(index), ("", [])) if index.isdecimal() else ("", [])
                place = f"{prefix}{index}/{attempt}/"
                files = [entry for entry in entries if attempt and entry.name.startswith(place)]
                if files:
                    del waiting[int(index)]
                    yield from (_ItemOutputs(number, name, store, place, files) for number, name in here)
        except ObjectNameError:
            # A program has the job's rights, and stores what it likes. One listing per item finds whose it is.
            yield from self._listed_each(self._each(job, waiting))
            return
        for index in sorted(waiting):
            for number, _ in waiting[index][1]:
                self._without_files(number)

    def _each(self, job: str, waiting: dict[int, tuple[str, list[tuple[int, str]]]]) -> Iterator[tuple[int, str, str]]:
        """The items with their names and the URIs of their outputs."""
        for index, (attempt, here) in sorted(waiting.items()):
            uri = self._ledger.store.uri_of(f"{layout.out(job)}/{index}/{attempt}/")
            yield from ((number, name, uri) for number, name in here)

    def _listed_each(self, items: Iterable[tuple[int, str, str]]) -> Iterator[_ItemOutputs]:
        """By a listing per item, a few side by side; each item with its name in the folder and the URI of its files."""
        with ThreadPoolExecutor(_LISTINGS) as pool:
            for outputs in in_order(pool, lambda item: self._list(*item), items, 2 * _LISTINGS):
                yield from self._seen(outputs)

    def _list(self, index: int, name: str, uri: str) -> _ItemOutputs:
        store, prefix = self._stores.locate(uri)
        files: list[Entry] = []
        problem = ""
        try:
            files = sorted(store.entries(prefix))
        except StoreMissingError:
            pass
        except ObjectNameError as error:
            problem = one_line(error.problem)
        return _ItemOutputs(index, name, store, prefix, files, problem)

    def _seen(self, outputs: _ItemOutputs) -> Iterator[_ItemOutputs]:
        if outputs.problem:
            self._report.moved.problems.append((outputs.name, outputs.problem))
        elif outputs.files:
            yield outputs
        else:
            self._without_files(outputs.item)

    def _without_files(self, index: int) -> None:
        if self._spec.names_output_uri:
            self._report.complete += 1
        else:
            self._report.gone.add(index)


def _targets(outputs: _ItemOutputs, of_files: bool) -> Iterator[tuple[Entry, str]]:
    """Each file of an item with its name in the folder."""
    names = [entry.name[len(outputs.prefix) :] for entry in outputs.files]
    if of_files and len(names) == 1:
        yield outputs.files[0], outputs.name + ending_of(names[0])
        return
    taken = UsedNames()
    for number, (entry, name) in enumerate(zip(outputs.files, names, strict=True)):
        yield entry, f"{outputs.name}/{taken.claim(safe_path(name), f'~{number}')}"
