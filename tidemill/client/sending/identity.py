"""Which job a submit means: the same name, program, items, settings and image are the same job."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from tidemill import layout
from tidemill.client.journal import Journal, known_spec
from tidemill.client.program.newer_files import changed_at, named_inputs
from tidemill.client.sending.program_files import ProgramFiles
from tidemill.client.site import Site
from tidemill.code import digest_of
from tidemill.errors import StoreMissingError
from tidemill.job import PARTS, JobSpec, SentBy, new_job_id
from tidemill.ledger.documents import UnreadableError, read_document
from tidemill.store import Store

GAP = 1000
"""Jobs of one identity in a row that may be gone, removed or expired, before a newer one that is still found."""
IDENTITY = {name for name, part in PARTS.items() if part.identity}


class JobIdentity(BaseModel):
    """A job's marks that tell it from others of its name, besides its spec: `jobs/<job>/identity.json`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    items: str
    """Fingerprint of its items."""
    chunk_size: int | None = None
    """As the caller gave it."""
    files: dict[str, str]
    """See `ProgramFiles.files`."""


def known_identity(store: Store, job: str) -> JobIdentity | None:
    """The marks of a job; None for one of an earlier or later version, which has none that can be read."""
    try:
        return read_document(store, layout.identity(job), JobIdentity)
    except (StoreMissingError, UnreadableError):
        return None


def matching_job(
    site: Site,
    journal: Journal,
    draft: JobSpec,
    identity: JobIdentity,
    program: ProgramFiles,
    *,
    code: str | None,
    named: bool,
    force: bool,
) -> tuple[str, JobSpec | None]:
    """The id of the job, and its spec if it is there: the newest with this name, program, items and settings, and with
    the image that the stack names today. By force, or without a name, it is a new one.

    Args:
        site: Where the job goes.
        journal: The jobs that are there.
        draft: The spec without what depends on the items.
        identity: Its items and files.
        program: The files, those of its code apart.
        code: What its code means: bytes of it may differ from run to run.
        named: Whether the caller gave a name.
        force: Whether to make another job in any case.
    """
    if not named:
        return new_job_id(draft.name), None
    draft = draft.model_copy(update={"code": code})
    in_place = digest_of(program.in_place) if site.local and program.in_place else None
    there = journal.ids(draft.name)
    job, newest = _newest(site.store, there, draft, identity, in_place)
    if newest is None and in_place:
        newest = _of_earlier_version(site.store, there, draft, identity, program.in_place)
    return (job, None) if force or newest is None else (newest.job, newest)


class SentJob(NamedTuple):
    """The one job of a send: its id, and its spec if it is there."""

    job: str
    spec: JobSpec | None


def sent_job(store: Store, sent_by: SentBy) -> SentJob:
    """The job of a template's send. What it sends may have changed since another sender began: neither the items nor
    the settings are in its identity. A job of an earlier version of the template is the same send, too."""
    there = Journal(store).ids(sent_by.template)
    free = ""
    for version in range(sent_by.version, 0, -1):
        job, spec = _of_send(store, there, sent_by, version)
        if spec is not None:
            return SentJob(job, spec)
        free = free or job
    return SentJob(free, None)


def _of_send(store: Store, there: Collection[str], sent_by: SentBy, version: int) -> SentJob:
    for again in count():
        marks = json.dumps([sent_by.occasion, version, *filter(None, [sent_by.mark]), again])
        job = f"{sent_by.template}-{hashlib.sha256(marks.encode()).hexdigest()[:8]}"
        spec = known_spec(store, job) if job in there else None
        if spec is None and not (job in there and _is_remains(store, job)):
            return SentJob(job, None)
        if spec and spec.sent_by and spec.sent_by.occasion == sent_by.occasion:
            return SentJob(job, spec)
    raise AssertionError("unreachable")


def _newest(
    store: Store, there: Collection[str], draft: JobSpec, identity: JobIdentity, in_place: str | None
) -> tuple[str, JobSpec | None]:
    """The id of an identity's next job, and the spec of its newest one of those that are there."""
    newest, following, ids = None, 0, list[str]()
    for job in _ids(draft, identity, in_place):
        ids.append(job)
        if job in there and (existing := known_spec(store, job)):
            following = len(ids)
            # Specs of older versions do not say which image it was.
            if existing.image_ref is None or image_content(existing.image_ref) == image_content(draft.image_ref):
                newest = existing
        elif job in there and _is_remains(store, job):
            following = len(ids)
        if len(ids) > following and (not there or len(ids) > following + GAP):
            break
    return ids[following], newest


def _is_remains(store: Store, job: str) -> bool:
    """True for what has outlived a job's spec, or came after its removal: no attempt begins before the spec is there.
    A job of that id would take those records for its own, and their outputs may be gone."""
    attempts = (re.fullmatch(r"r\d+", name.rpartition("/")[2]) for name in store.folders(f"{layout.JOBS}/{job}"))
    return any(attempts) and not store.exists(layout.spec(job))


def image_content(image: str | None) -> str | None:
    """An image's digest, which is the same in each mirror, or else its reference."""
    _, at, digest = (image or "").rpartition("@sha256:")
    return digest if at else image


def _of_earlier_version(
    store: Store, there: Collection[str], draft: JobSpec, identity: JobIdentity, in_place: Mapping[str, str]
) -> JobSpec | None:
    """The job that an earlier version made of a program that has not changed since. Ids of those do not say which files
    there were."""
    _, existing = _newest(store, there, draft, identity, None)
    if existing is None or known_identity(store, existing.job) is not None:
        return None
    files = [*(Path(name) for name in in_place if name.startswith("/")), *named_inputs(draft)]
    return existing if all(changed_at(file) <= existing.created_at.timestamp() for file in files) else None


def _ids(draft: JobSpec, identity: JobIdentity, in_place: str | None) -> Iterator[str]:
    """The ids of one identity without end: the same name, program, items and settings give the same ones."""
    values = draft.model_dump(mode="json", include=IDENTITY)
    values = {key: value for key, value in values.items() if value or PARTS[key].since == 1}
    values |= {"chunk_size": identity.chunk_size, "items": identity.items}
    values |= {"in_place": in_place} if in_place else {}
    for again in count():
        values |= {"again": again} if again else {}
        yield f"{draft.name}-{hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]}"
