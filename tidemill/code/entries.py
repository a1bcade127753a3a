"""The files of a folder of code: found, checked and listed, before any is packed."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidemill import secrecy
from tidemill.code.ignore_rules import IgnoreRules, unreadable
from tidemill.errors import CallerError, shown
from tidemill.figures import file_size

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
"""The largest folder, unpacked: every machine of the job fetches it before its first item."""
LIMIT_FIX = "Add what the programs do not need to .tidemillignore, which is like .gitignore. Data belongs in a bucket."
_LEFT_OUT = (".git", ".hg", ".svn", "__pycache__", ".tidemill")
"""Names that are never code: histories, compiled files (they hold times) and the local job store."""
NOTEBOOK = ".ipynb"
"""A look at a notebook saves it, and programs seldom read one."""
_SECRETS_SHOWN = 5


class TooLargeError(CallerError):
    """Code has more files or bytes than may travel."""


class CodeEntry(NamedTuple):
    """A file or link that is packed."""

    name: str
    """Relative, with slashes."""
    path: Path
    size: int
    executable: bool
    link: str | None


class Exclusions(NamedTuple):
    """Entries that are not packed: how many, and folders with logins among them."""

    number: int
    logins: tuple[str, ...]

    def plus(self, other: Exclusions) -> Exclusions:
        return Exclusions(self.number + other.number, self.logins + other.logins)


def found(
    what: str, folder: str | Path, without: Collection[str] = (), named: Collection[Path] = ()
) -> tuple[list[CodeEntry], Exclusions]:
    """A folder's entries, and what was left out; `what` is the argument that names it. Notebooks go along where they
    are `named`, by paths without links."""
    fix = "Name a folder that holds your program, or modules of it."
    if not str(folder) or "\0" in str(folder):
        raise CallerError.about(what, str(folder), "a folder", fix)
    root = Path(os.path.realpath(folder))
    if not root.is_dir():
        how = "is a file" if root.exists() else "does not exist"
        raise CallerError(f"{what}: {folder} {how}.", fix, what=what)
    entries, left_out = _entries(root, what, named)
    entries = [entry for entry in entries if entry.name not in without]
    if not entries:
        raise CallerError.about(
            what, str(folder), "a folder with files", ".gitignore or .tidemillignore may leave everything out."
        )
    return entries, left_out


def files_below(folder: Path) -> list[Path]:
    """The files of a folder that counts as code and stays where it is: nothing of it is refused."""
    root = Path(os.path.realpath(folder))
    ignored = IgnoreRules(root)

    def visit(folder: Path) -> Iterator[Path]:
        ignored.enter(folder)
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
                if is_left_out(path, is_folder, ignored(path, is_folder)):
                    continue
                if is_folder:
                    yield from visit(path)
                elif entry.is_file():
                    yield path

    return sorted(visit(root))


def is_left_out(path: Path, is_folder: bool, decided: bool | None) -> bool:
    """True for what is never code, and for what the rules that were `decided` on leave out."""
    if path.name in _LEFT_OUT or decided or (is_folder and _is_environment(path)):
        return True
    return decided is None and not is_folder and path.suffix == NOTEBOOK


def largest_part(entries: Iterable[CodeEntry]) -> tuple[str, int]:
    """The file or folder at the top that has the most bytes, and how many."""
    sizes: Counter[str] = Counter()
    for entry in entries:
        top, below, _ = entry.name.partition("/")
        sizes[top + below] += entry.size
    return sizes.most_common(1)[0]


def _entries(root: Path, what: str, named: Collection[Path]) -> tuple[list[CodeEntry], Exclusions]:
    ignored, entries, left_out = IgnoreRules(root), [], 0
    logins: list[str] = []
    secrets: list[str] = []

    def visit(folder: Path) -> Iterator[CodeEntry]:
        nonlocal left_out
        ignored.enter(folder)
        for entry in sorted(_scan(root, folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            decided = False if path in named else ignored(path, is_folder)
            if is_left_out(path, is_folder, decided):
                left_out += 1
            elif is_folder and decided is None and secrecy.is_login_folder(entry.path):
                logins.append(_relative(root, path))
            elif is_folder:
                yield from visit(path)
            else:
                one = entry_of(root, path)
                if decided is None and one.link is None and secrecy.is_secret(entry.path, one.size, code=True):
                    secrets.append(one.name)
                yield one

    for entry in visit(root):
        entries.append(entry)
        if len(entries) > MAX_FILES:
            raise TooLargeError(f"code: {root} has more than {MAX_FILES} files.", LIMIT_FIX, what="code")
    if sum(entry.size for entry in entries) > MAX_BYTES:
        name, size = largest_part(entries)
        raise TooLargeError(
            f"code: {root} has more than {MAX_BYTES >> 20} MiB; the largest part is {name} with {file_size(size)}.",
            LIMIT_FIX,
            what="code",
        )
    if secrets:
        names = ", ".join(shown(name) for name in secrets[:_SECRETS_SHOWN])
        more = f" and {len(secrets) - _SECRETS_SHOWN} more" if len(secrets) > _SECRETS_SHOWN else ""
        raise CallerError(
            f"{what}: {names}{more} may hold secrets, and everyone who may read the job store could read them.",
            f"Add them to .tidemillignore or .gitignore; a line with ! and a name sends that file. {secrecy.INSTEAD}",
            what=what,
        )
    return sorted(entries, key=lambda entry: os.fsencode(entry.name)), Exclusions(left_out, tuple(logins))


def _scan(root: Path, folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise unreadable(_relative(root, folder), error) from None


def _is_environment(folder: Path) -> bool:
    """A virtual environment works on the machine it was made on; `requirements.txt` is how packages travel."""
    return (folder / "pyvenv.cfg").is_file()


def entry_of(root: Path, path: Path) -> CodeEntry:
    name = _relative(root, path)
    try:
        name.encode()
        status = path.lstat()
    except UnicodeEncodeError:
        raise CallerError(f"code: the name {name!r} is not UTF-8.", "Rename the file.", what="code") from None
    except OSError as error:
        raise unreadable(name, error) from None
    if stat.S_ISLNK(status.st_mode):
        return CodeEntry(name, path, 0, False, _link(root, path, name))
    if not stat.S_ISREG(status.st_mode):
        raise CallerError(
            f"code: {name} is {_kind(status.st_mode)}.", "Move it elsewhere, or add it to .tidemillignore.", what="code"
        )
    if not os.access(path, os.R_OK):
        raise unreadable(name, PermissionError("permission denied"))
    return CodeEntry(name, path, status.st_size, bool(status.st_mode & stat.S_IXUSR), None)


def _link(root: Path, path: Path, name: str) -> str:
    """A link's target, which must be relative and lead to somewhere in the folder, also by way of other links."""
    target = os.readlink(path)
    lexical = Path(os.path.normpath(path.parent / target))
    inside = lexical.is_relative_to(root) and Path(os.path.realpath(path)).is_relative_to(root)
    if os.path.isabs(target) or not inside:
        raise CallerError(
            f"code: the link {name} leads to {target}; a link must lead to a file in the folder, by a relative path.",
            "Copy the file, or add the link to .tidemillignore.",
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
