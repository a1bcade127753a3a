"""Hold files of a folder as they are at one moment, while they are sent and the program goes on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def held(
    folder: Path, paths: Iterable[str], unlinked: Callable[[Iterable[str]], None] = lambda paths: None
) -> Iterator[Callable[[str], Path]]:
    """Link files into a folder next to theirs. A program that replaces or removes one leaves the link as it was; one
    that writes into the file changes both.

    Args:
        folder: The state folder.
        paths: Files in it.
        unlinked: Told at the end which of them were linked.

    Yields:
        Where the bytes of a path are: its link, or the file itself where it cannot be linked.
    """
    place = folder.with_name(f"{folder.name}.held")
    # A worker that was killed has left its links.
    shutil.rmtree(place, ignore_errors=True)
    links: dict[str, Path] = {}
    try:
        # Not every file system has hard links, and a program may lock the folder above its own. Then nothing is held.
        with suppress(OSError):
            place.mkdir()
            for number, path in enumerate(paths):
                # Linux would link a symbolic link itself, not what it leads to.
                os.link(os.path.realpath(folder / path), link := place / str(number))
                links[path] = link
        yield lambda path: links.get(path, folder / path)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        unlinked(links)
