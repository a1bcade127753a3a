"""Requests to the API of the host of the code, GitHub or GitLab: pages and refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import requests

_TIMEOUT_SECONDS = 30
_PAGE = 100


class HostError(Exception):
    """The host of the code refused a request or did not answer; the text has the request and the answer."""


class Rest:
    """One host's API.

    Args:
        base: Its address, which paths follow.
        headers: With the token.
        redirects: Whether to follow redirects. To another host `requests` takes every header but `Authorization` along.
    """

    def __init__(self, base: str, headers: Mapping[str, str], *, redirects: bool) -> None:
        self._base, self._redirects = base, redirects
        self._session = requests.Session()
        self._session.headers.update(headers)

    def pages(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """The elements of a list, page by page."""
        page, items = 1, [{}] * _PAGE
        while len(items) == _PAGE:
            items = self.call("GET", path, query={**(query or {}), "per_page": str(_PAGE), "page": str(page)})
            yield from items
            page += 1

    def call(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """A request's answer.

        Raises:
            HostError: The host refuses, redirects where none is followed, or does not answer.
        """
        try:
            answer = self._session.request(
                method,
                f"{self._base}/{path}",
                json=body,
                params=query,
                timeout=_TIMEOUT_SECONDS,
                allow_redirects=self._redirects,
            )
            if answer.status_code not in (200, 201):
                raise HostError(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            return answer.json()
        except requests.RequestException as error:
            raise HostError(f"{method} {path}: {error}") from None
