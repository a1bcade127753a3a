"""Rejects at submit the items that every worker would reject."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from tidemill.store import OBJECT_STORES

_PLAIN = re.compile(r"job://[^\x00-\x1f]+$|(?:s3|gs)://[A-Za-z0-9._-]+(?:/(?!\.{1,2}(?:/|$))[^/\x00-\x1f]+)+$")
"""Items that need no closer look: most items of most jobs."""
SHOWN = 6
"""Prefixes that a message names."""
_CONTROL = re.compile(r"[\x00-\x1f]")
_NAMES = "Correct it. If the item is not a file, or is on a mount of the machines, use {uri} instead of {input}."


def names_object(uri: str) -> bool:
    """True if machines can fetch an object of this name, wherever it is."""
    return _PLAIN.fullmatch(uri) is not None


@dataclass(frozen=True)
class FetchRules:
    """Rules for items that a cloud's machines fetch; `files`: these may see this machine's files."""

    cloud: str
    files: bool
    readable: tuple[str, ...] = ("",)
    """Prefixes of the URIs of objects that jobs may read."""
    public: Callable[[str], bool] = lambda uri: False
    """Tells of another object whether jobs may read it as the public does."""

    def plain(self, uri: str) -> bool:
        """True if an item is fine at first sight."""
        return _PLAIN.match(uri) is not None and self._may_read(uri)

    def problem(self, uri: str) -> str | None:
        """Why an item cannot be fetched, and what to do, as what follows "the item is X, "; None where it can be."""
        scheme, is_uri, rest = uri.partition("://")
        if not is_uri:
            return self._path_problem(uri)
        try:
            path = unquote(urlsplit(uri).path)
        except ValueError as error:
            return f"which is not a valid URI ({error}). Correct it."
        if scheme == "job":
            # Where its job is looked up, it is checked.
            return None
        if scheme == "file":
            return "which holds a NUL. Correct it." if "\0" in path else self._path_problem(path)
        return _object_problem(scheme, *rest.partition("/")[::2]) or self._grant_problem(uri)

    def _may_read(self, uri: str) -> bool:
        return uri.startswith(self.readable) or self.public(uri)

    def _grant_problem(self, uri: str) -> str | None:
        if self._may_read(uri):
            return None
        stores = [prefix for prefix in self.readable if prefix.startswith(("s3://", "gs://"))]
        shown = ", ".join(stores[:SHOWN]) + (" and others" if len(stores) > SHOWN else "")
        return (
            f"which the pipeline's jobs may not read: the stack grants {shown}. Ask its owner to add it to "
            "tidemill:data.read, or use {uri} instead of {input} if the program has a login of its own."
        )

    def _path_problem(self, path: str) -> str | None:
        if not self.files:
            # A file of this machine is uploaded.
            return None if os.path.lexists(path) else f"a path, and no file of this machine is there. {_NAMES}"
        if self.cloud != "local" and not path.startswith("/"):
            return "a relative path; give a URI or an absolute path. Use {uri} instead of {input} if it is not a file."
        return None


def _object_problem(scheme: str, bucket: str, name: str) -> str | None:
    if scheme not in OBJECT_STORES:
        return (
            "which Tidemill does not fetch: it fetches s3:// and gs:// objects. Use {uri} instead of {input} if the "
            "program fetches its items itself."
        )
    if not bucket or not name:
        return "which names no object. Name one, such as s3://bucket/image.jpg; `items` takes a prefix."
    if any(part in ("", ".", "..") for part in name.split("/")) or _CONTROL.search(name):
        return (
            "which cannot be fetched: its name has an empty, `.` or `..` part or a control character. Rename the "
            "object, or use {uri} instead of {input} if the program can read it."
        )
    return None
