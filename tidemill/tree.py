"""A folder in the job store: which files it has, and which object holds each of them.

Snapshots, inputs from this machine and what `fetch` brings down are trees. Their bytes are objects of any name, so
that a file that did not change is not stored again, and a file may have a name that no object can have.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tidemill.errors import DamagedError, decoding, shown
from tidemill.store import BLOCK_BYTES, STREAM_BYTES, Store, no_room, open_plain
from tidemill.store.ahead import in_order

THREADS = 4
"""Files that are fetched side by side."""
PART = ".tidemill-part-"
"""How the name of a file begins that is not completely there yet."""


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree.

    Attributes:
        path: Relative to the folder, with ``/``.
        size: Bytes.
        sha256: Of its bytes, in hex; None where only the size is known.
        object: Name of the object that holds its bytes, in the store of the tree.
    """

    path: str
    size: int
    sha256: str | None
    object: str


@dataclass(frozen=True, slots=True)
class Tree:
    """A stored folder: its files, in any order. Empty folders, links and permissions are not part of it."""

    files: tuple[TreeFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> list[dict[str, object]]:
        return [asdict(file) for file in self.files]

    @classmethod
    def from_json(cls, files: Iterable[dict[str, object]]) -> Tree:
        """A tree from what `to_json` made.

        Raises:
            ValueError: A path leaves the folder, or is there twice; KeyError and TypeError for other rubbish.
        """
        tree = cls(tuple(_file(**file) for file in files))  # type: ignore[arg-type]
        check_paths(file.path for file in tree.files)
        return tree

    def encode(self) -> bytes:
        """The same tree gives the same bytes, so that they can be named by their SHA-256."""
        ordered = Tree(tuple(sorted(self.files, key=lambda file: file.path)))
        return json.dumps({"files": ordered.to_json()}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes, what: str) -> Tree:
        """A tree from its bytes. `what` names the object in the `DamagedError` that bad bytes raise."""
        with decoding(what):
            return cls.from_json(json.loads(data)["files"])


def _file(path: str, size: int, sha256: str | None, object: str, **_: object) -> TreeFile:  # noqa: A002
    if not isinstance(path, str) or not isinstance(object, str) or not isinstance(size, int) or size < 0:
        raise TypeError(f"{shown(path)} is not described as a file is")
    return TreeFile(path, size, sha256, object)


def check_paths(paths: Iterable[str]) -> None:
    """Refuse, with `ValueError`, paths that lead out of their folder or cannot all be there at the same time."""
    seen: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        parts = path.split("/")
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"the path {shown(path)} leaves the folder")
        if path in seen:
            raise ValueError(f"the path {shown(path)} is there twice")
        seen.add(path)
        folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
    if both := seen & folders:
        raise ValueError(f"the path {shown(min(both))} is a file and a folder")


def sha256_of(path: Path | str, stop: Callable[[], bool] = lambda: False) -> str:
    """SHA-256 of a plain file in hex, read a block at a time."""
    with open_plain(path) as file:
        return _hashed(file.read, stop).hexdigest()


def _hashed(read: Callable[[int], bytes], stop: Callable[[], bool]) -> hashlib._Hash:
    digest = hashlib.sha256()
    while block := read(STREAM_BYTES):
        if stop():
            raise InterruptedError("stopped")
        digest.update(block)
    return digest


# ---- from the store --------------------------------------------------------------------------------------------


def fetch_tree(
    store: Store,
    tree: Tree,
    folder: Path,
    *,
    threads: int = THREADS,
    stop: Callable[[], bool] = lambda: False,
    room: int | None = None,
    fetched: Callable[[TreeFile, int], None] = lambda file, size: None,
    parts: Path | None = None,
    place: Callable[[Path, Path], object] = os.replace,
) -> int:
    """Bring a tree into a folder and return the bytes that came from the store.

    Each file is checked by size and SHA-256, and appears under its name only when it is complete. A file that is there
    already, with the same content, stays; so the same call continues what was interrupted. Other files of the folder
    stay too.

    Args:
        store: Where the objects are.
        tree: What to bring.
        folder: Where to; it is created.
        threads: Files side by side.
        stop: Called often, from several threads; true ends the transfer with `InterruptedError`.
        room: Bytes that may come into the folder; None for any number. A file of the same size takes no more.
        fetched: Told of each file that is complete, with the bytes that came from the store; from several threads.
        parts: Where files are that are not complete; None for the folder itself, where a later call continues them.
        place: Gives a complete file its path.

    Raises:
        DamagedError: An object does not hold what the tree says, or a path leaves the folder.
        StoreMissingError: An object is not there.
        OSError: The disk is full (`errno.ENOSPC`), or cannot be written.
    """
    with decoding("a tree"):
        check_paths(file.path for file in tree.files)
    if room is not None and (coming := sum(file.size for file in tree.files if not _fits(file, folder))) > room:
        raise no_room(coming, room)
    folder.mkdir(parents=True, exist_ok=True)
    top = folder.resolve()

    def one(file: TreeFile) -> int:
        target = _target(top, file.path)
        size = 0
        if not is_there(file, target, stop):
            part = (parts or top) / _part_name(file)
            size = _complete(store, file, part, stop)
            place(part, target)
        fetched(file, size)
        return size

    with ThreadPoolExecutor(threads, thread_name_prefix="tree") as pool:
        return sum(in_order(pool, one, tree.files))


def _target(top: Path, path: str) -> Path:
    """Where a file goes. A link in the folder must not lead it elsewhere."""
    target = top / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.parent.resolve().is_relative_to(top):
        raise DamagedError(f"{shown(path)} would be written outside {top}: a folder above it is a link.")
    return target


def _part_name(file: TreeFile) -> str:
    """The name of a file that is not complete: after its content and place, so that it can be continued."""
    content = f"{file.sha256} {file.object} {file.path}".encode("utf-8", "surrogateescape")
    return f"{PART}{hashlib.sha256(content).hexdigest()[:24]}"


def _fits(file: TreeFile, folder: Path) -> bool:
    """True if a plain file of the right size is in its place."""
    try:
        status = os.lstat(folder / file.path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == file.size


def is_there(file: TreeFile, target: Path, stop: Callable[[], bool] = lambda: False) -> bool:
    """True if a plain file has the content that a tree names."""
    try:
        same = not target.is_symlink() and target.stat().st_size == file.size
        return same and file.sha256 is not None and sha256_of(target, stop) == file.sha256
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def _complete(store: Store, file: TreeFile, part: Path, stop: Callable[[], bool]) -> int:
    """Bring the rest of a file that has begun, or all of it, and check it."""
    with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b", buffering=0) as opened:
        digest = hashlib.sha256()
        begun = os.fstat(opened.fileno()).st_size
        if begun > file.size or file.sha256 is None:
            opened.truncate(begun := 0)
        elif begun:
            digest = _hashed(opened.read, stop)
        copied = store.copy_here(file.object, opened, stop) if file.sha256 is None else None
        came = copied or 0
        if copied is None and begun < file.size:
            for block in store.stream(file.object, begun, block_bytes=BLOCK_BYTES):
                if stop():
                    raise InterruptedError(f"the transfer of {file.path} was stopped")
                digest.update(block)
                opened.write(block)
                came += len(block)
        if begun + came == file.size and file.sha256 in (None, digest.hexdigest()):
            return came
    part.unlink()
    if begun:
        # The earlier part may be of another time.
        return came + _complete(store, file, part, stop)
    raise DamagedError(
        f"{store.uri_of(file.object)} does not hold what was stored of {shown(file.path)}: its "
        f"{'size' if came != file.size else 'SHA-256'} differs."
    )


# ---- into the store --------------------------------------------------------------------------------------------


def store_file(store: Store, source: Path | str, path: str, name: str, *, settled: bool = True) -> TreeFile:
    """Upload a file as an object, and return what a tree says of it. Its SHA-256 is computed on the way.

    Args:
        store: Where to.
        source: The file.
        path: Its path in the tree.
        name: The object.
        settled: Whether the file must not change meanwhile.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is not a plain file.
        FileChangedError: It changed meanwhile.
        StoreError: The store did not take it.
    """
    size, sha256 = store.upload(source, name, hashed=True, settled=settled)
    return TreeFile(path, size, sha256, name)
