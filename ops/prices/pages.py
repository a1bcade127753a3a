"""The pages of a listing, kept until it is whole: a refresh that was interrupted continues where it was."""

import gzip
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "build" / "prices"
"""Not tracked."""
KEPT_SECONDS = 6 * 3600
"""An older page is asked for again: half a listing of today and half of yesterday would have no date."""
MOST_PAGES = 10_000
"""Ten times the longest listing. A listing that goes on is refused."""

Page = tuple[list[Any], str]
"""Rows, and the token of the next page; an empty token ends the listing."""


class ExpiredTokenError(Exception):
    """The cloud no longer takes the token of a page."""


class Pages:
    """The pages of one listing in a folder of its own, one file per page."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = folder, clock

    def rows(self, ask: Callable[[str], Page]) -> list[Any]:
        """All rows of the listing, of the kept pages first.

        Args:
            ask: The page of a token; the first page's is empty. If it raises `ExpiredTokenError` for a token that an
                earlier run left, the listing starts again.

        Raises:
            ValueError: The listing names a page again, or does not end. Its pages are forgotten.
            Exception: What `ask` raised. The pages before it stay.
        """
        kept = list(self._kept())
        pages = list(kept)
        while not pages or pages[-1][1]:
            token = pages[-1][1] if pages else ""
            if (again := token in (page[1] for page in pages[:-1])) or len(pages) >= MOST_PAGES:
                self.forget()
                raise ValueError(f"the listing {f'leads back to its page {token!r}' if again else 'does not end'}")
            try:
                page = ask(token)
            except ExpiredTokenError:
                if not kept or len(pages) > len(kept):
                    raise
                self.forget()
                return self.rows(ask)
            self._keep(len(pages), page)
            pages.append(page)
        return [row for page in pages for row in page[0]]

    def forget(self) -> None:
        """Delete the pages: the listing is in the table, or out of date."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _kept(self) -> Iterator[Page]:
        paths = sorted(self._folder.glob("*.json.gz"))
        # A clock that was put back makes pages of the future.
        if paths and abs(self._clock() - paths[0].stat().st_mtime) > KEPT_SECONDS:
            self.forget()
            return
        for number, path in enumerate(paths):
            if path.name != _name(number):
                return
            try:
                rows, token = json.loads(gzip.decompress(path.read_bytes()))
            except (OSError, EOFError, ValueError, zlib.error):
                return
            yield rows, token

    def _keep(self, number: int, page: Page) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        written = self._folder / f"{number}.tmp"
        written.write_bytes(gzip.compress(json.dumps(page).encode(), compresslevel=1))
        os.replace(written, self._folder / _name(number))


def _name(number: int) -> str:
    return f"{number:05}.json.gz"
