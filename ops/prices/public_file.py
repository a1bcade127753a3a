"""A public JSON file of AWS, read without a login."""

import datetime
import json
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any

_TIMEOUT_SECONDS = 60
_MOST_BYTES = 64 << 20

Download = Callable[[], tuple[bytes, str | None]]
"""The file's content, and its `Last-Modified`; raises `OSError` if it cannot be read."""


def download(url: str) -> tuple[bytes, str | None]:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
        return answer.read(_MOST_BYTES), answer.headers.get("Last-Modified")


class PublicFile:
    """The file, read when it is first asked for and once. A failure is kept too: it is the same for all regions."""

    def __init__(self, url: str, download_file: Download | None = None) -> None:
        self._download = download_file or partial(download, url)

    @property
    def content(self) -> Any:
        """The file.

        Raises:
            OSError: It could not be read.
            ValueError: It is not JSON.
        """
        return self._read()[0]

    @property
    def as_of(self) -> datetime.date:
        """The day on which AWS wrote it; today where it does not say."""
        return self._read()[1]

    def _read(self) -> tuple[Any, datetime.date]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    @cached_property
    def _answer(self) -> tuple[Any, datetime.date] | Exception:
        try:
            content, modified = self._download()
            day = parsedate_to_datetime(modified).date() if modified else datetime.datetime.now(datetime.UTC).date()
            return json.loads(content), day
        except (OSError, ValueError) as error:
            return error
