"""Writes a report where its reader finds it: a file of this machine, or an object."""

from __future__ import annotations

from pathlib import Path

from tidemill.client.site import Site
from tidemill.errors import CallerError
from tidemill.store import OBJECT_STORES


def check_place(place: str) -> None:
    """Refuse a place that nothing can be written to, before a job is read for it."""
    scheme, is_uri, rest = place.partition("://")
    if is_uri and (scheme not in (*OBJECT_STORES, "file") or rest.endswith("/") or "/" not in rest):
        allowed = "a file, or the URI of an object such as s3://bucket/tiles.html"
        raise CallerError.about("output", place, allowed, "Name a file or an object.")
    if not is_uri and (Path(place).is_dir() or not Path(place).absolute().parent.is_dir()):
        raise CallerError.about("output", place, "a file in a folder that exists", "Make the folder, or name another.")


def save(site: Site, place: str, page: str) -> str:
    """Write a page to a path or a URI; returns where it is.

    Raises:
        CallerError: The file cannot be written.
    """
    if "://" not in place:
        try:
            Path(place).write_text(page, encoding="utf-8")
        except OSError as error:
            problem = f"output: {place} cannot be written: {error.strerror}."
            advice = "Name a file in a folder that can be written."
            raise CallerError(problem, advice, what="output", value=place) from None
        return place
    store, name = site.stores().locate(place)
    store.put(name, page.encode(), media_type="text/html; charset=utf-8")
    return place
