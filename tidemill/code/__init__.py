"""A folder of code that travels with a job: packed here, unpacked by the worker (`tidemill.worker.items.code`).

The same folder gives the same bytes, and so the same name, on any machine: entries are sorted, times and owners are
left out, and a file's mode is only what git keeps: whether it can be executed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import zstandard

from tidemill import layout
from tidemill.code.entries import (
    LIMIT_FIX,
    MAX_BYTES,
    MAX_FILES,
    CodeEntry,
    Exclusions,
    TooLargeError,
    entry_of,
    found,
    largest_part,
)
from tidemill.code.ignore_rules import unreadable
from tidemill.errors import CallerError, DamagedError
from tidemill.figures import counted, file_size
from tidemill.folders import temporary_folder
from tidemill.store import Store

PLACEHOLDER = "{code}"
"""The unpacked folder in a command."""
REQUIREMENTS = "requirements.txt"
PACKAGE_FILES = (".whl", ".tar.gz", ".zip")
"""Packages that a wheelhouse holds."""
PACKAGE = "this_session"
"""The package of what travels by value."""
LEVEL = 6
NOTED_BYTES = MAX_BYTES // 4
"""Code of this size gets a remark on its largest part."""


@dataclass
class CodeParts:
    """Parts that travel with a function besides a folder, or in its place.

    Attributes:
        files: Single files, by their names in the code.
        folders: Folders, by theirs.
        fingerprints: What the functions and classes mean that were made into `PACKAGE`, one of the folders, by their
            names in it: its bytes differ from run to run. Empty where nothing was made.
    """

    files: Mapping[str, Path]
    folders: Mapping[str, Path]
    fingerprints: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class CodeArchive:
    """A packed folder, in a file that is removed with this object.

    Attributes:
        path: The file, in a folder of its own.
        identity: What tells it from other code: the same for bytes that mean the same.
        contents: What it is made of, by name: the SHA-256 of a file, the target of a link, the fingerprint of a
            function.
        files: How many files and links are in it.
        size: Their bytes, unpacked.
        left_out: Entries that .gitignore, or we, left out.
        logins: Folders in which programs keep logins: they are left out, too.
        requirements: Whether it asks for packages.
        large: What to leave out of code that comes near the limit; empty for other code.
        origin: The repository and commit that it is from, where it was packed before.
    """

    sha256: str
    path: Path
    files: int
    size: int
    identity: str
    contents: Mapping[str, str]
    left_out: int = 0
    logins: Sequence[str] = ()
    requirements: bool = False
    large: str = ""
    origin: str | None = None

    def __post_init__(self) -> None:
        self.close = weakref.finalize(self, shutil.rmtree, self.path.parent, ignore_errors=True)

    def words(self, origin: str | None = None) -> str:
        """Describe the code that is sent, for people; `origin` is the repository that it is from."""
        packages = f"; {REQUIREMENTS} is installed once per machine" if self.requirements else ""
        repository = f"{origin}, " if origin else ""
        logins = f"; left out because they hold logins: {', '.join(self.logins)}" if self.logins else ""
        return f"code: {repository}{counted(self.files, 'file')}, {file_size(self.size)}{packages}{logins}{self.large}."


def pack(
    folder: str | Path | None,
    libs: Sequence[str | Path] = (),
    *,
    packages: bool = True,
    command: Sequence[str] = (),
    parts: CodeParts | None = None,
) -> CodeArchive:
    """Pack a folder's files, except what a .gitignore in it, or above it in the same repository, leaves out.

    Args:
        folder: The folder; None for the parts alone.
        libs: Other folders, which become folders in it, each under its own name.
        packages: Whether its requirements.txt goes along, so that what it names is installed.
        command: What runs with it: a notebook goes along where it is named.
        parts: What a function brings. Where the folder has a module of the same name, that one goes.

    Raises:
        CallerError: It is not a folder, nothing is left in it, it is too large, it holds what cannot be shipped or
            looks like a secret, or there is something of a lib's name in it.
    """
    without = () if packages else (REQUIREMENTS,)
    entries, left = (
        ([], Exclusions(0, ())) if folder is None else found("code", folder, without, _named(folder, command))
    )
    for lib in libs:
        of_lib, more = found("lib", lib)
        entries, left = _joined(entries, Path(os.path.realpath(lib)).name, of_lib), left.plus(more)
    if parts is not None:
        entries, left = _with_parts(entries, left, parts, without)
    path = temporary_folder("code") / "code.tar.zst"
    try:
        contents = _write(path, entries)
    except BaseException:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise
    sha256 = file_sha256(path)
    if parts is not None and parts.fingerprints:
        contents = {name: sha for name, sha in contents.items() if not name.startswith(f"{PACKAGE}/")}
        contents |= {f"{PACKAGE}:{name}": fingerprint for name, fingerprint in parts.fingerprints.items()}
    return CodeArchive(
        sha256=sha256,
        identity=sha256 if parts is None or not parts.fingerprints else digest_of(contents),
        contents=contents,
        path=path,
        files=len(entries),
        size=sum(entry.size for entry in entries),
        left_out=left.number,
        logins=left.logins,
        requirements=any(entry.name == REQUIREMENTS for entry in entries),
        large=_large(entries),
    )


def fetched(store: Store, name: str, origin: str | None = None) -> CodeArchive:
    """Packed code of the store, as it was when it was packed. Nothing of it is unpacked.

    Raises:
        DamagedError: It is none.
    """
    path = temporary_folder("code") / "code.tar.zst"
    try:
        store.download(name, path)
        contents, size = _read(path)
    except (tarfile.TarError, zstandard.ZstdError) as error:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise DamagedError(f"{store.uri_of(name)} is damaged: {error}.") from None
    except BaseException:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise
    sha256 = file_sha256(path)
    return CodeArchive(
        sha256=sha256,
        identity=sha256,
        contents=contents,
        path=path,
        files=len(contents),
        size=size,
        requirements=REQUIREMENTS in contents,
        origin=origin,
    )


def upload(store: Store, job: str, packed: CodeArchive) -> None:
    """Bring packed code to a job, once: its name says what is in it."""
    upload_as(store, layout.code(job, packed.sha256), packed)


def upload_as(store: Store, name: str, packed: CodeArchive) -> None:
    if not store.exists(name):
        store.upload(packed.path, name)


def in_code(words: Sequence[str], folder: str | Path) -> list[str]:
    """A command with the files of the folder, which it names by their relative paths, as `{code}/...`.

    Items run in scratch folders of their own, so ``python3 features.py`` would not find the shipped file.
    """
    root = Path(os.path.realpath(folder))
    return [f"{PLACEHOLDER}/{PurePosixPath(word)}" if _names_file(root, word) else word for word in words]


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _named(folder: str | Path, command: Sequence[str]) -> set[Path]:
    root = Path(os.path.realpath(folder)) if command else Path()
    return {Path(os.path.normpath(root / word)) for word in command if _names_file(root, word)}


def _names_file(root: Path, word: str) -> bool:
    path = Path(os.path.normpath(root / word))
    return not word.startswith(("-", "/")) and "{" not in word and path.is_relative_to(root) and os.path.isfile(path)


def _large(entries: Sequence[CodeEntry]) -> str:
    if sum(entry.size for entry in entries) < NOTED_BYTES:
        return ""
    name, size = largest_part(entries)
    return f"; {name} has {file_size(size)} of it: what programs do not need goes into .tidemillignore"


# ---- what is packed ---------------------------------------------------------------------------------------------


def _joined(entries: list[CodeEntry], name: str, lib: list[CodeEntry]) -> list[CodeEntry]:
    """Entries of the code with those of a lib in a folder of its name."""
    if any(entry.name.partition("/")[0] == name for entry in entries):
        allowed = "a folder whose name nothing else at the top of the code has"
        raise CallerError.about("lib", name, allowed, "Rename one of the two.")
    joined = entries + [entry._replace(name=f"{name}/{entry.name}") for entry in lib]
    if len(joined) > MAX_FILES or sum(entry.size for entry in joined) > MAX_BYTES:
        limits = f"{MAX_FILES} files and {MAX_BYTES >> 20} MiB"
        raise TooLargeError(f"code: with {name} it has more than {limits}.", LIMIT_FIX, what="lib")
    return sorted(joined, key=lambda entry: os.fsencode(entry.name))


def _with_parts(
    entries: list[CodeEntry], left: Exclusions, parts: CodeParts, without: Sequence[str]
) -> tuple[list[CodeEntry], Exclusions]:
    """Entries of the code with what a function brings, except what they have already."""
    there = {entry.name.partition("/")[0] for entry in entries}
    if parts.fingerprints and PACKAGE in there:
        problem = f"code has {PACKAGE!r} at its top, and the function travels under that name."
        raise CallerError(problem, "Rename it, or leave it out by a .gitignore.", what="code")
    for name, folder in parts.folders.items():
        if name.partition("/")[0] not in there:
            of_part, more = found("function", folder)
            entries, left = _joined(entries, name, of_part), left.plus(more)
    names = [name for name in parts.files if name not in without]
    files = [entry_of(parts.files[name].parent, parts.files[name])._replace(name=name) for name in names]
    entries += [entry for entry in files if entry.name.partition("/")[0] not in there]
    return sorted(entries, key=lambda entry: os.fsencode(entry.name)), left


def digest_of(contents: Mapping[str, str]) -> str:
    """A digest of what code is made of."""
    return hashlib.sha256(json.dumps(sorted(contents.items())).encode()).hexdigest()


def _write(path: Path, entries: Sequence[CodeEntry]) -> dict[str, str]:
    """Pack entries; returns what tells each from another of its name."""
    # One thread: with several the bytes depend on how many.
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=0)
    with (
        path.open("wb") as file,
        compressor.stream_writer(file, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        return {entry.name: _add(tar, entry) for entry in entries}


def _add(tar: tarfile.TarFile, entry: CodeEntry) -> str:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.executable else 0o644
    if entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
        return f"-> {entry.link}"
    info.size, digest = entry.size, hashlib.sha256()
    try:
        with entry.path.open("rb") as file:
            tar.addfile(info, _HashedFile(file, digest))
            grown = bool(file.read(1))
    except OSError as error:
        # tarfile says so too when the file ends early.
        if error.errno is not None:
            raise unreadable(entry.name, error) from None
        grown = True
    if grown:
        raise CallerError(f"code: {entry.name} changed while it was packed.", "Try again.", what="code")
    return f"{digest.hexdigest()}{' executable' if entry.executable else ''}"


def _read(path: Path) -> tuple[dict[str, str], int]:
    """The contents of packed code, as `_write` returned them, and its bytes."""
    contents, size = {}, 0
    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        for member in tar:
            size += member.size
            # Whoever writes into the store may have packed what unpacks for hours.
            if len(contents) >= MAX_FILES or size > MAX_BYTES:
                raise tarfile.TarError(f"it has more than {MAX_FILES} files or {MAX_BYTES >> 20} MiB")
            data = tar.extractfile(member) if member.isfile() else None
            digest = hashlib.sha256()
            while data and (block := data.read(1 << 20)):
                digest.update(block)
            mark = " executable" if member.mode & 0o100 else ""
            contents[member.name] = f"-> {member.linkname}" if data is None else f"{digest.hexdigest()}{mark}"
    return contents, size


class _HashedFile(io.RawIOBase):
    """A file that is hashed as it is read."""

    def __init__(self, file: BinaryIO, digest: hashlib._Hash) -> None:
        self._file, self._digest = file, digest

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data
