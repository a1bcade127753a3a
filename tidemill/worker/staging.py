"""Data comes and goes by itself: an item's input as a local file, its outputs as objects under the attempt's prefix."""

from __future__ import annotations

import errno
import os
import re
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.store import STREAM_BYTES, Stores
from tidemill.worker.scratch import Scratch
from tidemill.worker.stop import Stop

SPARE_BYTES = 64 * 1024 * 1024
"""Left free on the scratch volume: other containers of the machine share it."""
_TRANSFERS = 4


class StagingError(Exception):
    """An input or output that could not be moved.

    Args:
        reason: ``input``, ``output`` or ``scratch``.
        text: What happened.
        final: Whether trying again is useless.
    """

    def __init__(self, reason: str, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.reason, self.final = reason, final


class Staging:
    """Moves inputs and outputs, a few at a time.

    Args:
        stores: Where objects are.
        scratch: Where files go.
        stop: Ends transfers.
    """

    def __init__(self, stores: Stores, scratch: Scratch, stop: Stop) -> None:
        self.stores, self._scratch, self._stop = stores, scratch, stop
        self._pool = ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="staging")

    def fetch(self, uri: str, folder: Path, stop: Stop | None = None) -> Future[Path]:
        """Begin to fetch an item into a folder.

        Args:
            uri: ``s3://``, ``gs://`` or ``file://``, or a path on this machine.
            folder: Where the file goes, under the item's own name.
            stop: Ends this transfer; None for what ends every transfer.

        Returns:
            The local file, or a `StagingError`.
        """
        return self._pool.submit(self._fetch, uri, folder, self._stop if stop is None else stop)

    def _fetch(self, uri: str, folder: Path, stop: Stop) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / file_name(uri)
        try:
            if "://" not in uri or uri.startswith("file://"):
                self._copy(Path(unquote(urlsplit(uri).path)) if "://" in uri else Path(uri), target, stop)
            else:
                self._download(uri, target, stop)
        except StagingError:
            raise
        except (StoreMissingError, StoreDeniedError, CallerError, FileNotFoundError, IsADirectoryError) as error:
            raise StagingError("input", f"{uri} cannot be fetched: {error}", final=True) from None
        except (StoreError, OSError) as error:
            full = isinstance(error, OSError) and error.errno == errno.ENOSPC
            raise StagingError("scratch" if full else "input", f"{uri} cannot be fetched: {error}") from None
        return target

    def _download(self, uri: str, target: Path, stop: Stop) -> None:
        store, name = self.stores.locate(uri)
        size = store.size(name)
        if size is None:
            raise StagingError("input", f"{uri} does not exist", final=True)
        self._room_for(size)
        store.download(name, target, lambda: bool(stop))

    def _copy(self, source: Path, target: Path, stop: Stop) -> None:
        self._room_for(source.stat().st_size)
        with source.open("rb") as read, target.open("wb") as write:
            while block := read.read(STREAM_BYTES):
                if stop:
                    raise InterruptedError("stopped")
                write.write(block)

    def _room_for(self, size: int) -> None:
        free = self._scratch.free_bytes()
        if size + SPARE_BYTES > free:
            text = f"the scratch volume has {free // 2**20} MiB free, the item needs {size // 2**20} MiB"
            raise StagingError("scratch", text)

    def upload(self, folder: Path, prefix: str) -> int:
        """Upload every file of a folder under a prefix.

        Args:
            folder: The item's output folder.
            prefix: A URI with a trailing slash.

        Returns:
            How many files there were.

        Raises:
            StagingError: Not all of them are there now.
        """
        if not os.listdir(folder):
            return 0
        files = _files(folder)
        try:
            store, base = self.stores.locate(prefix)
            done = [self._pool.submit(store.upload, path, base + name) for path, name in files]
            for transfer in done:
                transfer.result()
        except (StoreError, CallerError, OSError) as error:
            raise StagingError("output", f"the output cannot be written to {prefix}: {error}") from None
        return len(files)

    def close(self) -> None:
        """Wait for what is under way, and begin nothing else."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _files(folder: Path) -> list[tuple[Path, str]]:
    """Files of a folder with their names in it. A link that leads outside is refused: it would publish what it is not
    the item's to publish."""
    found = []
    root = folder.resolve()
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            if not path.resolve().is_relative_to(root):
                raise StagingError("output", f"{path.name} is a link that leads outside the output folder", final=True)
            if not path.is_file():
                raise StagingError("output", f"{path.name} is neither a file nor a folder", final=True)
            relative = path.relative_to(folder).as_posix()
            if not relative.isprintable():
                raise StagingError("output", f"{relative!r} cannot be the name of an object", final=True)
            found.append((path, relative))
    return found


def file_name(uri: str) -> str:
    """The name that an item's local copy gets: its own, so that programs which look at the ending still can."""
    last = uri.rstrip("/").rsplit("/", 1)[-1]
    return (
        re.sub(r"[\0/]", "_", last).encode("utf-8", "replace")[-200:].decode("utf-8", "ignore").lstrip(".") or "input"
    )
