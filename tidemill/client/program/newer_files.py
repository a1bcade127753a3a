"""Files of this machine that are newer than outcomes made of them: a job's program and its inputs.

A cloud's job holds what it runs: its code and its local inputs are sent by their content. A local one names files where
they are, and remains the same job when they change. As in make, the times of files and outcomes tell; nothing is
recorded for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from tidemill.client.program.own_modules import OwnModules
from tidemill.client.program.used_files import used_files
from tidemill.clouds.local.desk import Desk
from tidemill.code.entries import files_below
from tidemill.figures import counted
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.outcome_items import items_of
from tidemill.ledger.outcome_sources import ended_chunks


def newer_than_outcomes(ledger: Ledger, spec: JobSpec) -> Iterator[str]:
    """A sentence for each file of a local job's program, and one for all of its inputs, that is newer than outcomes."""
    made = _made(ledger)
    if not made:
        return
    folder = _folder(ledger, spec)
    for file in [*program_of(spec, folder), *named_inputs(spec)]:
        at = changed_at(file)
        if older := sum(time < at for time in made.values()):
            outcomes = f"{older} of {counted(len(made), 'outcome')}"
            yield f"{_shown(file)} is newer than {outcomes} of {spec.job}, which stay as they are."
    chunks = {ledger.index().chunk_of(item) for item in made}
    items = (item for item in items_of(ledger, chunks) if item.index in made)
    newer = [item for item in items if (path := _path(item.uri, folder)) and changed_at(path) > made[item.index]]
    if newer:
        more = f" (and {len(newer) - 1} more)" if len(newer) > 1 else ""
        yield (
            f"{newer[0].uri}{more} is newer than its outcome in {spec.job}, which stays as it is: `tidemill retry "
            f"{spec.job} --items {','.join(str(item.index) for item in newer[:5])}{',...' if len(newer) > 5 else ''}`."
        )


def changed_while(ledger: Ledger, spec: JobSpec, since: float) -> Iterator[str]:
    """A sentence for each file of a local job's program that changed while the job ran."""
    for file in program_of(spec, _folder(ledger, spec)):
        if changed_at(file) > since:
            yield f"{_shown(file)} changed while the job ran: items that began before that ran the file as it was."


def program_of(spec: JobSpec, folder: Path) -> list[Path]:
    """The files that a job runs where they are. Code that travels with a job is not among them, as a function is whose
    job was sent by an earlier version."""
    if not spec.function or spec.code is not None:
        return used_files(spec.command or (), spec.env)
    modules = OwnModules([str(folder)], in_place=True)
    modules.add(spec.function.partition(":")[0])
    return [*modules.files.values(), *(file for each in modules.folders.values() for file in files_below(each))]


def changed_at(path: str | Path) -> float:
    """When a file, or any file of a folder, was last written or put in its place; 0 where there is none. A copy may
    keep the time of its original, but not the time of its inode. Folders behind links in a folder are not looked at:
    they may lead back to it."""
    at = _changed_at(path)
    for folder, _, files in os.walk(path):
        at = max([at, _changed_at(folder), *(_changed_at(os.path.join(folder, file)) for file in files)])
    return at


def _changed_at(path: str | Path) -> float:
    try:
        status = os.stat(path)
    except OSError:
        return 0.0
    return max(status.st_mtime, status.st_ctime)


def _folder(ledger: Ledger, spec: JobSpec) -> Path:
    """Where the job was first typed."""
    origin = Desk(ledger.store.uri, spec.job).origin()
    return Path(origin.folder) if origin else Path.cwd()


def _made(ledger: Ledger) -> dict[int, float]:
    """When each outcome was made, by the index of its item."""
    made: dict[int, float] = {}
    listing, index = ledger.listing(), ledger.index()
    for round_ in listing.rounds:
        for chunk, at in listing.done[round_.round].items():
            runs = round_.runs(chunk)
            first = index.frame(chunk).first
            made |= dict.fromkeys(range(first, first + index.size(chunk)) if runs is None else runs, at)
    for chunk, ended in ended_chunks(ledger.store, ledger.job, listing.rounds, listing.done.__getitem__).items():
        if ended.unfinished is not None:
            made |= {outcome.index: ended.at for outcome in ledger.computed(chunk, (), ended.unfinished)}
    return made


def named_inputs(spec: JobSpec) -> list[Path]:
    """Inputs of a job that are files or folders of this machine."""
    return [Path(unquote(uri.removeprefix("file://"))) for uri in spec.inputs.values() if uri.startswith("file://")]


def _path(uri: str, folder: Path) -> str | None:
    if uri.startswith("file://"):
        return unquote(uri.removeprefix("file://"))
    return None if "://" in uri else os.path.join(folder, uri)


def _shown(file: Path) -> str:
    return os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file)
