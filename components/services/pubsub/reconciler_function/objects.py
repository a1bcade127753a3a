"""The job store as the reconciler sees it: objects, and what they say of a job's rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from tidemill import layout

from .cloud import CallError, Cloud, base

MOST_BYTES = 8 * 2**20
"""Of an object. Parsed, JSON may take twenty times as much memory."""
MOST_NAMES = 100_000
"""In a folder: a record of each chunk, or a marker of each attempt on one."""
MOST_ROUNDS = 1000
"""Of a job."""


class Objects:
    """The job store, object by object."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._url = f"{base('STORAGE')}storage/v1/b/{cloud.bucket}/o"
        self._upload = f"{base('STORAGE')}upload/storage/v1/b/{cloud.bucket}/o"

    def names(self, folder: str, most: int = MOST_NAMES) -> Iterator[str]:
        """Names in a folder.

        Raises:
            ValueError: There are too many.
        """
        for count, entry in enumerate(self._beginning_with(f"{folder}/")):
            if count >= most:
                raise ValueError(f"{folder} has more than {most} objects")
            yield entry["name"]

    def generations(self, folder: str) -> dict[str, str]:
        """Names in a folder, each with the generation of its object."""
        return {
            each["name"]: each["generation"] for each in self._beginning_with(f"{folder}/", "items(name,generation)")
        }

    def has(self, name: str) -> bool:
        """True if an object exists."""
        return any(each["name"] == name for each in self._beginning_with(name))

    def _beginning_with(self, prefix: str, fields: str = "items(name)") -> Iterator[dict[str, str]]:
        query = {"prefix": prefix, "fields": f"{fields},nextPageToken"}
        for page in self._cloud.pages("GET", self._url, query):
            yield from page.get("items", [])

    def find(self, name: str) -> bytes | None:
        """An object's content; None for one that is not there.

        The function may not list the whole bucket, so Cloud Storage would answer 403 for a missing object.
        Source: https://cloud.google.com/storage/docs/access-control/iam-permissions (storage.objects.list)
        """
        return self.get(name) if self.has(name) else None

    def get(self, name: str) -> bytes:
        """The content of an object that is there.

        Raises:
            ValueError: It is too large.
        """
        return b"".join(self._blocks(name))

    def first_line(self, name: str) -> bytes:
        """The first line of an object that is there; the rest is not read."""
        line = b""
        for block in self._blocks(name):
            line += block
            if b"\n" in block:
                break
        return line.partition(b"\n")[0]

    def _blocks(self, name: str) -> Iterator[bytes]:
        size = 0
        for block in self._cloud.blocks(f"{self._url}/{quote(name, safe='')}"):
            size += len(block)
            if size > MOST_BYTES:
                raise ValueError(f"{name} has more than {MOST_BYTES} bytes")
            yield block

    def create(self, name: str, content: bytes = b"") -> bool:
        """False when the object was there before, or an earlier try of this call made it."""
        query = {"uploadType": "media", "name": name, "ifGenerationMatch": "0"}
        try:
            self._cloud.answer("POST", self._upload, params=query, data=content)
        except CallError as error:
            if error.code == 412:
                return False
            raise
        return True

    def remove(self, name: str, generation: str) -> None:
        """Delete an object of a generation; it may be gone already, and a newer one stays."""
        try:
            query = {"ifGenerationMatch": generation}
            self._cloud.answer("DELETE", f"{self._url}/{quote(name, safe='')}", params=query)
        except CallError as error:
            # See `find`.
            if error.code not in (403, 404, 412):
                raise


def end_job(objects: Objects, job: str, number: int, reason: str, at: str) -> None:
    """Write the tombstone of a job up to a round."""
    content = json.dumps({"by": "worker", "reason": reason, "at": at, "rounds": number + 1}).encode()
    if not objects.create(layout.cancelled(job), content):
        objects.create(layout.cancelled_round(job, number), content)


def rounds_of(objects: Objects, job: str) -> list[int]:
    """The rounds of a job."""
    names = objects.names(layout.rounds(job), MOST_ROUNDS)
    return sorted(int(name.rsplit("/", 1)[1].removesuffix(".json")) for name in names)


def is_cancelled(objects: Objects, job: str, number: int) -> bool:
    """True if a tombstone covers a round (tidemill/ledger/tombstone.py)."""
    data = objects.find(layout.cancelled(job))
    if data is None:
        return False
    return (
        number < json.loads(data).get("rounds", number + 1)
        or objects.find(layout.cancelled_round(job, number)) is not None
    )
