"""Versions of a bucket of Cloud Storage.

Source: https://cloud.google.com/storage/docs/using-versioned-objects
"""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException, Response

from ops.backend import Bucket, Version

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
_TIMEOUT_SECONDS = 30


class GcsBucket(Bucket):
    """A bucket of Cloud Storage, whose region is not needed."""

    refusals: tuple[type[Exception], ...] = (GoogleAuthError, RequestException)

    def __init__(self, name: str, region: str | None = None) -> None:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
        self._session = AuthorizedSession(credentials)
        base = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE") or "https://storage.googleapis.com/"
        self._objects = f"storage/v1/b/{name}/o"
        self._base = base

    def versions(self, prefix: str) -> Iterator[Version]:
        token = ""
        while token is not None:
            query = {"prefix": prefix, "versions": "true", **({"pageToken": token} if token else {})}
            page = self._asked("GET", self._objects, query).json()
            for one in page.get("items", []):
                written = datetime.fromisoformat(one["timeCreated"])
                yield Version(one["name"], one["generation"], written, "timeDeleted" not in one)
            token = page.get("nextPageToken")

    def read(self, version: Version) -> bytes:
        query = {"alt": "media", "generation": version.id}
        return self._asked("GET", self._path(version.name), query).content

    def write(self, name: str, content: bytes) -> None:
        self._asked("POST", f"upload/{self._objects}", {"uploadType": "media", "name": name}, content)

    def delete(self, name: str) -> None:
        self._asked("DELETE", self._path(name), {})

    def _path(self, name: str) -> str:
        return f"{self._objects}/{quote(name, safe='')}"

    def _asked(self, method: str, path: str, query: dict[str, Any], content: bytes | None = None) -> Response:
        answer = self._session.request(
            method, f"{self._base}{path}", params=query, data=content, timeout=_TIMEOUT_SECONDS
        )
        answer.raise_for_status()
        return answer


opened = GcsBucket
