"""A folder of code that travels with a job: packed here, unpacked by the worker (`tidemill.worker.items.code`).

The same folder gives the same bytes, and so the same name, on any machine: entries are sorted, times and owners are
left out, and a file's mode is only what git keeps: whether it can be executed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import zstandard

from tidemill import layout, secrecy
from tidemill.errors import CallerError, shown
from tidemill.figures import counted, file_size
from tidemill.ignore_rules import IgnoreRules, unreadable
from tidemill.store import Store

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
"""The largest folder, unpacked: every machine of the job fetches it before its first item."""
PLACEHOLDER = "{code}"
"""The unpacked folder in a command."""
REQUIREMENTS = "requirements.txt"
PACKAGE_FILES = (".whl", ".tar.gz", ".zip")
"""Packages that a wheelhouse holds."""
LEVEL = 6
_LEFT_OUT = (".git", ".hg", ".svn", "__pycache__", ".tidemill")
"""Names that are never code: histories, compiled files (they hold times) and the local job store."""
_SECRETS_SHOWN = 5
_LIMIT_FIX = "Add what the programs do not need to .gitignore. Data belongs in a bucket or in the image."


@dataclass(eq=False)
class CodeArchive:
    """A packed folder, in a file that is removed with this object.

    Attributes:
        path: The file, in a folder of its own.
        files: How many files and links are in it.
        size: Their bytes, unpacked.
        left_out: Entries that .gitignore, or we, left out.
        logins: Folders in which programs keep logins: they are left out, too.
        requirements: Whether it asks for packages.
    """

    sha256: str
    path: Path
    files: int
    size: int
    left_out: int = 0
    logins: Sequence[str] = ()
    requirements: bool = False

    def __post_init__(self) -> None:
        self.close = weakref.finalize(self, shutil.rmtree, self.path.parent, ignore_errors=True)

    def words(self, origin: str | None = None) -> str:
        """Describe the code that is sent, for people; `origin` is the repository that it is from."""
        packages = f"; {REQUIREMENTS} is installed once per machine" if self.requirements else ""
        repository = f"{origin}, " if origin else ""
        logins = f"; left out because they hold logins: {', '.join(self.logins)}" if self.logins else ""
        return f"code: {repository}{counted(self.files, 'file')}, {file_size(self.size)}{packages}{logins}."


def pack(folder: str | Path, libs: Sequence[str | Path] = (), *, packages: bool = True) -> CodeArchive:
    """Pack a folder's files, except what a .gitignore in it, or above it in the same repository, leaves out.

    Args:
        folder: The folder.
        libs: Other folders, which become folders in it, each under its own name.
        packages: Whether its requirements.txt goes along, so that what it names is installed.

    Raises:
        CallerError: It is not a folder, nothing is left in it, it is too large, it holds what cannot be shipped or
            looks like a secret, or there is something of a lib's name in it.
    """
    entries, left = _found("code", folder, () if packages else (REQUIREMENTS,))
    for lib in libs:
        of_lib, more = _found("lib", lib)
        entries, left = _joined(entries, Path(os.path.realpath(lib)).name, of_lib), left.plus(more)
    path = Path(tempfile.mkdtemp(prefix="tidemill-code-"), "code.tar.zst")
    try:
        _write(path, entries)
    except BaseException:
        shutil.rmtree(path.parent, ignore_errors=True)
        raise
    return CodeArchive(
        sha256=file_sha256(path),
        path=path,
        files=len(entries),
        size=sum(entry.size for entry in entries),
        left_out=left.number,
        logins=left.logins,
        requirements=any(entry.name == REQUIREMENTS for entry in entries),
    )


def upload(store: Store, job: str, packed: CodeArchive) -> None:
    """Bring packed code to a job, once: its name says what is in it."""
    name = layout.code(job, packed.sha256)
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


def _names_file(root: Path, word: str) -> bool:
    path = Path(os.path.normpath(root / word))
    return not word.startswith(("-", "/")) and "{" not in word and path.is_relative_to(root) and os.path.isfile(path)


# ---- what is packed ---------------------------------------------------------------------------------------------


class _Entry(NamedTuple):
    name: str
    """Relative, with slashes."""
    path: Path
    size: int
    executable: bool
    link: str | None


class _Exclusions(NamedTuple):
    number: int
    logins: tuple[str, ...]

    def plus(self, other: _Exclusions) -> _Exclusions:
        return _Exclusions(self.number + other.number, self.logins + other.logins)


def _found(what: str, folder: str | Path, without: Sequence[str] = ()) -> tuple[list[_Entry], _Exclusions]:
    """A folder's entries, and what was left out; `what` is the argument that names it."""
    fix = "Name a folder that holds your program, or modules of it."
    if not str(folder) or "\0" in str(folder):
        raise CallerError.about(what, str(folder), "a folder", fix)
    root = Path(os.path.realpath(folder))
    if not root.is_dir():
        how = "is a file" if root.exists() else "does not exist"
        raise CallerError(f"{what}: {folder} {how}.", fix, what=what)
    entries, left_out = _entries(root, what)
    entries = [entry for entry in entries if entry.name not in without]
    if not entries:
        raise CallerError.about(what, str(folder), "a folder with files", ".gitignore may leave everything out.")
    return entries, left_out


def _joined(entries: list[_Entry], name: str, lib: list[_Entry]) -> list[_Entry]:
    """Entries of the code with those of a lib in a folder of its name."""
    if any(entry.name.partition("/")[0] == name for entry in entries):
        allowed = "a folder whose name nothing else at the top of the code has"
        raise CallerError.about("lib", name, allowed, "Rename one of the two.")
    joined = entries + [entry._replace(name=f"{name}/{entry.name}") for entry in lib]
    if len(joined) > MAX_FILES or sum(entry.size for entry in joined) > MAX_BYTES:
        limits = f"{MAX_FILES} files and {MAX_BYTES >> 20} MiB"
        raise CallerError(f"code: with {name} it has more than {limits}.", _LIMIT_FIX, what="lib")
    return sorted(joined, key=lambda entry: os.fsencode(entry.name))


def _entries(root: Path, what: str) -> tuple[list[_Entry], _Exclusions]:
    ignored, entries, left_out, size = IgnoreRules(root), [], 0, 0
    logins: list[str] = []
    secrets: list[str] = []
    largest = _Entry("", root, -1, False, None)

    def visit(folder: Path) -> Iterator[_Entry]:
        nonlocal left_out
        ignored.enter(folder)
        for entry in sorted(_scan(root, folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            decided = ignored(path, is_folder)
            if entry.name in _LEFT_OUT or decided or (is_folder and _is_environment(path)):
                left_out += 1
            elif is_folder and decided is None and secrecy.is_login_folder(entry.path):
                logins.append(_relative(root, path))
            elif is_folder:
                yield from visit(path)
            else:
                one = _entry(root, path)
                if decided is None and one.link is None and secrecy.is_secret(entry.path, one.size, code=True):
                    secrets.append(one.name)
                yield one

    for entry in visit(root):
        entries.append(entry)
        size += entry.size
        largest = max(largest, entry, key=lambda one: one.size)
        if len(entries) > MAX_FILES:
            raise CallerError(f"code: {root} has more than {MAX_FILES} files.", _LIMIT_FIX, what="code")
        if size > MAX_BYTES:
            raise CallerError(
                f"code: {root} has more than {MAX_BYTES >> 20} MiB; its largest file so far is {largest.name} with "
                f"{largest.size >> 20} MiB.",
                _LIMIT_FIX,
                what="code",
            )
    if secrets:
        names = ", ".join(shown(name) for name in secrets[:_SECRETS_SHOWN])
        more = f" and {len(secrets) - _SECRETS_SHOWN} more" if len(secrets) > _SECRETS_SHOWN else ""
        raise CallerError(
            f"{what}: {names}{more} may hold secrets, and everyone who may read the job store could read them.",
            "Add them to .gitignore, which works without git, too; a line with ! and a name sends that file. "
            f"{secrecy.INSTEAD}",
            what=what,
        )
    return sorted(entries, key=lambda entry: os.fsencode(entry.name)), _Exclusions(left_out, tuple(logins))


def _scan(root: Path, folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise unreadable(_relative(root, folder), error) from None


def _is_environment(folder: Path) -> bool:
    """A virtual environment works on the machine it was made on; `requirements.txt` is how packages travel."""
    return (folder / "pyvenv.cfg").is_file()


def _entry(root: Path, path: Path) -> _Entry:
    name = _relative(root, path)
    try:
        name.encode()
        status = path.lstat()
    except UnicodeEncodeError:
        raise CallerError(f"code: the name {name!r} is not UTF-8.", "Rename the file.", what="code") from None
    except OSError as error:
        raise unreadable(name, error) from None
    if stat.S_ISLNK(status.st_mode):
        return _Entry(name, path, 0, False, _link(root, path, name))
    if not stat.S_ISREG(status.st_mode):
        raise CallerError(
            f"code: {name} is {_kind(status.st_mode)}.", "Move it elsewhere, or add it to .gitignore.", what="code"
        )
    if not os.access(path, os.R_OK):
        raise unreadable(name, PermissionError("permission denied"))
    return _Entry(name, path, status.st_size, bool(status.st_mode & stat.S_IXUSR), None)


def _link(root: Path, path: Path, name: str) -> str:
    """A link's target, which must be relative and lead to somewhere in the folder, also by way of other links."""
    target = os.readlink(path)
    lexical = Path(os.path.normpath(path.parent / target))
    inside = lexical.is_relative_to(root) and Path(os.path.realpath(path)).is_relative_to(root)
    if os.path.isabs(target) or not inside:
        raise CallerError(
            f"code: the link {name} leads to {target}; a link must lead to a file in the folder, by a relative path.",
            "Copy the file, or add the link to .gitignore.",
            what="code",
        )
    return target


def _kind(mode: int) -> str:
    kinds: dict[str, Callable[[int], bool]] = {
        "a socket": stat.S_ISSOCK,
        "a pipe": stat.S_ISFIFO,
        "a device": lambda mode: stat.S_ISBLK(mode) or stat.S_ISCHR(mode),
    }
    return next((kind for kind, matches in kinds.items() if matches(mode)), "something else")


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _write(path: Path, entries: Sequence[_Entry]) -> None:
    # One thread: with several the bytes depend on how many.
    compressor = zstandard.ZstdCompressor(level=LEVEL, threads=0)
    with (
        path.open("wb") as file,
        compressor.stream_writer(file, closefd=False) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in entries:
            _add(tar, entry)


def _add(tar: tarfile.TarFile, entry: _Entry) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.executable else 0o644
    if entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
        return
    info.size = entry.size
    try:
        with entry.path.open("rb") as file:
            tar.addfile(info, file)
            grown = bool(file.read(1))
    except OSError as error:
        # tarfile says so too when the file ends early.
        if error.errno is not None:
            raise unreadable(entry.name, error) from None
        grown = True
    if grown:
        raise CallerError(f"code: {entry.name} changed while it was packed.", "Try again.", what="code")
