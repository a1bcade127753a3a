"""A template and its versions in the job store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tidemill import layout
from tidemill.errors import CallerError
from tidemill.job import NAME_PATTERN
from tidemill.ledger.documents import TamperedError, read_document
from tidemill.store import Store

_VERSION = re.compile(r"([1-9][0-9]{0,8})\.json")
REFERENCE = re.compile(r"([a-z][a-z0-9-]{0,40})(?:@([1-9][0-9]{0,8}))?")


class Template(BaseModel):
    """A version of a template: a submit that is kept. Versions are numbered from 1, and none is ever changed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
    version: int = Field(ge=1)
    saved_by: str
    saved_at: datetime
    settings: dict[str, Any] = Field(default_factory=dict)
    """Keywords of a submit, those that are given. Texts may hold `{time:%Y}`."""
    code: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of its packed code."""
    code_origin: str | None = None
    removed: bool = False
    """True where the template was removed: nothing is deleted, and its next version makes it anew."""


def template_names(store: Store) -> list[str]:
    """Names of all templates, those that were removed among them."""
    return [folder.rpartition("/")[2] for folder in store.folders(layout.TEMPLATES)]


def versions(store: Store, name: str) -> list[int]:
    """The numbers of a template's versions, in order."""
    names = (entry.rpartition("/")[2] for entry in store.list(layout.template_versions(name)))
    return sorted(int(found[1]) for entry in names if (found := _VERSION.fullmatch(entry)))


def _read(store: Store, name: str, version: int) -> Template:
    at = layout.template_version(name, version)
    template = read_document(store, at, Template)
    if (template.name, template.version) != (name, version):
        raise TamperedError(f"{store.uri_of(at)} is not what was saved: it is {template.name}@{template.version}.")
    return template


def newest_template(store: Store, name: str) -> Template | None:
    """The newest version of a template; None where there is none, or it was removed."""
    numbers = versions(store, name)
    if not numbers:
        return None
    newest = _read(store, name, numbers[-1])
    return None if newest.removed else newest


def find_template(store: Store, reference: str) -> Template:
    """A template by its name, or by its name and version, such as `nightly@3`.

    Raises:
        CallerError: There is none, or it was removed.
    """
    parts = REFERENCE.fullmatch(reference) if isinstance(reference, str) else None
    if parts is None:
        allowed = "a template's name, or its name and version, such as nightly@3"
        raise CallerError.about("template", reference, allowed, "`tidemill templates` lists them.")
    name, number = parts.groups()
    newest = newest_template(store, name)
    if newest is None:
        problem = f"There is no template {name!r} in {store.uri}."
        fix = "`tidemill templates` lists them, `tidemill template save` makes one."
        raise CallerError(problem, fix, what="template", value=name)
    if number is None or int(number) == newest.version:
        return newest
    if int(number) not in versions(store, name):
        allowed = f"from 1 to {newest.version}"
        raise CallerError.about(f"the version of template {name}", int(number), allowed, "Name one of these.")
    return _read(store, name, int(number))


def add_version(store: Store, template: Template) -> Template:
    """Write a template down as the newest version, whatever number it has."""
    numbers = versions(store, template.name)
    for number in _following(numbers[-1] if numbers else 0):
        numbered = template.model_copy(update={"version": number})
        name = layout.template_version(template.name, number)
        if store.create(name, numbered.model_dump_json(exclude_defaults=True).encode()).ours:
            return numbered
    raise AssertionError("unreachable")


def _following(number: int) -> Iterator[int]:
    while True:
        yield (number := number + 1)
