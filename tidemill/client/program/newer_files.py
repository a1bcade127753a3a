"""Files of this machine that are newer than outcomes made of them: a job's program and its inputs.

A cloud's job holds what it runs: its code and its local inputs are sent by their content. A local one names files where
they are, and remains the same job when they change. As in make, the times of files and outcomes tell; nothing is
recorded for it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote

from tidemill.client.program.function import module_file
from tidemill.clouds.local.desk import Desk
from tidemill.figures import counted
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.outcome_items import items_of
from tidemill.ledger.outcome_sources import ended_chunks

_SYSTEM = ("/bin/", "/sbin/", "/usr/", "/lib", "/opt/", "/nix/", "/etc/", "/proc/", "/dev/")
"""Programs there change with packages of the system, not with the work of a person."""


def newer_than_outcomes(ledger: Ledger, spec: JobSpec) -> Iterator[str]:
    """A sentence for each file of a local job's program, and one for all of its inputs, that is newer than outcomes."""
    made = _made(ledger)
    if not made:
        return
    folder = _folder(ledger, spec)
    for file in [*code_files(spec, folder), *_named_inputs(spec)]:
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
    for file in code_files(spec, _folder(ledger, spec)):
        if changed_at(file) > since:
            yield f"{_shown(file)} changed while the job ran: items that began before that ran the file as it was."


def code_files(spec: JobSpec, folder: Path) -> list[Path]:
    """The files that a job runs where they are: those that its command names, the module of its function, and the
    modules next to them that they import. Code that travels with a job is not among them."""
    files: dict[Path, None] = {}
    for word in spec.command or []:
        if word.startswith("/") and not word.startswith(_SYSTEM) and os.path.isfile(word):
            _add(Path(word), Path(word).parent, files)
    if spec.function and spec.code is None and (file := module_file(folder, spec.function.partition(":")[0])):
        _add(file, folder, files)
    return list(files)


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
            made |= {outcome.index: ended.at for outcome in ledger.merged(chunk, (), ended.unfinished)}
    return made


def _named_inputs(spec: JobSpec) -> list[Path]:
    return [Path(unquote(uri.removeprefix("file://"))) for uri in spec.inputs.values() if uri.startswith("file://")]


def _path(uri: str, folder: Path) -> str | None:
    if uri.startswith("file://"):
        return unquote(uri.removeprefix("file://"))
    return None if "://" in uri else os.path.join(folder, uri)


def _shown(file: Path) -> str:
    return os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file)


def _add(file: Path, folder: Path, files: dict[Path, None]) -> None:
    """Add a file and, of a Python one, the modules in its folder that it imports."""
    if file in files:
        return
    files[file] = None
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for base, name in _imports(tree, file, folder):
        if near := module_file(base, name):
            _add(near, folder, files)


def _imports(tree: ast.Module, file: Path, folder: Path) -> Iterable[tuple[Path, str]]:
    """Modules that a file imports, each with the folder where they are looked for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((folder, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else folder
            head = f"{node.module}." if node.module else ""
            yield from ((base, f"{head}{one.name}") for one in node.names)
            if node.module:
                yield base, node.module
