"""Which job a submit means: the same name, items, settings and image are the same job."""

from __future__ import annotations

import hashlib
import json

from tidemill.client.journal import known_spec
from tidemill.client.site import Site
from tidemill.job import PARTS, JobSpec, new_job_id

_IDENTITY = {name for name, part in PARTS.items() if part.identity}


def matching_job(
    site: Site, draft: JobSpec, items: str, chunk_size: int | None, *, code: str | None, named: bool, force: bool
) -> tuple[str, JobSpec | None]:
    """The id of the job, and its spec if it is there: the newest with this name, these items and settings, and with the
    image that the stack names today. By force, or without a name, it is a new one.

    Args:
        site: Where the job goes.
        draft: The spec without what depends on the items.
        items: Fingerprint of the items.
        chunk_size: As the caller gave it.
        code: What its code means: bytes of it may differ from run to run.
        named: Whether the caller gave a name.
        force: Whether to make another job in any case.
    """
    if not named:
        return new_job_id(draft.name), None
    newest, again, draft = None, 0, draft.model_copy(update={"code": code})
    while existing := known_spec(site.store, job := _identity(draft, chunk_size, items, again)):
        again += 1
        # Specs of older versions do not say which image it was.
        if existing.image_ref is None or _content(existing.image_ref) == _content(draft.image_ref):
            newest = existing
    return (job, None) if force or newest is None else (newest.job, newest)


def _content(image: str | None) -> str | None:
    """An image's digest, which is the same in each mirror, or else its reference."""
    _, at, digest = (image or "").rpartition("@sha256:")
    return digest if at else image


def _identity(draft: JobSpec, chunk_size: int | None, items: str, again: int) -> str:
    """The same name, items and settings give the same id; `again` counts those that are there already."""
    values = draft.model_dump(mode="json", include=_IDENTITY)
    values = {key: value for key, value in values.items() if value or PARTS[key].since == 1}
    values |= {"chunk_size": chunk_size, "items": items}
    values |= {"again": again} if again else {}
    return f"{draft.name}-{hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]}"
