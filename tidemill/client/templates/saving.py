"""Saving a template: everything that its sends would be refused for is refused now."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from tidemill import layout
from tidemill.client.arguments import in_units, mapping
from tidemill.client.items.folders import WILD
from tidemill.client.keywords import KEYWORDS
from tidemill.client.sending.check import CheckedSettings, check_place, check_settings
from tidemill.client.site import Site
from tidemill.code import upload_as
from tidemill.errors import CallerError, StoreDeniedError, shown
from tidemill.job import NAME_PATTERN
from tidemill.request import OPTIONS, JobRequest
from tidemill.templates.moments import before_time, has_time, with_time
from tidemill.templates.template import Template, add_version, newest_template

MOST_BYTES = 1 << 20
"""Of a template's settings. More items belong into a list in a store."""
_URI = re.compile(r"(s3|gs|job)://")
_TRAVELS = {"code", "libs"}
"""What is kept as packed code."""
_OF_ONE_CALL = {"confirm", "watch", "log"}
_REFUSED = {
    "name": "A template's jobs have its name.",
    "force": "Each send of a template is a job of its own.",
    "secrets": "A stack sends its templates without a person, so it has no personal secrets. Its owner declares a "
    "secret of the team under tidemill:queues.<queue>.secrets.",
}
KEPT = KEYWORDS - _REFUSED.keys() - _TRAVELS - _OF_ONE_CALL
"""Settings of a template."""
_SIMPLE = (str, int, float)
_ITEMS_FIX = "Copy it into a store, and give its prefix or a pattern, such as s3://bucket/prefix/**.jpg."


def save_template(site: Site, name: str, request: JobRequest) -> Template:
    """Keep a submit as the newest version of a template. See `Templates.save`."""
    if not isinstance(name, str) or not re.match(NAME_PATTERN, name):
        allowed = "a letter a-z, then up to 40 of a-z, 0-9 and '-'"
        raise CallerError.about("name", name, allowed, "Choose another name.")
    settings = _kept(request)
    _check_items(site, settings)
    checked = _checked(site, name, request, settings)
    try:
        return _written(site, name, settings, checked)
    except StoreDeniedError as error:
        if site.descriptor.schedules or site.descriptor.arrivals:
            raise
        raise StoreDeniedError(
            f"{site.store.uri}/{layout.TEMPLATES} may not be written: the stack has no schedules and no arrivals.",
            "Ask its owner to add a schedule under tidemill:schedules, or tidemill:arrivals, and to run `pulumi up`.",
            code=error.code,
            owner=True,
        ) from error


def _written(site: Site, name: str, settings: dict[str, Any], checked: CheckedSettings) -> Template:
    """Write a template as its newest version, unless that is the same."""
    if checked.draft.code:
        assert checked.packed
        upload_as(site.store, layout.template_code(name, checked.draft.code), checked.packed)
    made = Template(
        name=name,
        version=1,
        saved_by=site.account.user(),
        saved_at=site.account.at(),
        settings=settings,
        code=checked.draft.code,
        code_origin=checked.draft.code_origin,
    )
    newest = newest_template(site.store, name)
    same = newest and (newest.settings, newest.code) == (made.settings, made.code)
    return newest if newest and same else add_version(site.store, made)


def _kept(request: JobRequest) -> dict[str, Any]:
    """The settings that are given, as JSON has them."""
    if callable(request.function) or callable(request.command):
        fix = "Give its name, such as features:extract, and its folder as `code`."
        raise CallerError("function is an object of Python, and a template keeps texts.", fix, what="function")
    request, kept = in_units(request), dict[str, Any]()
    for one in fields(request):
        value, option = getattr(request, one.name), OPTIONS.get(one.name)
        default = option.default if option else None
        given = value is not None and value != default if isinstance(value, _SIMPLE) else bool(value)
        if given and (why := _REFUSED.get(one.name)):
            raise CallerError(f"{one.name} is given for a template.", why, what=one.name)
        if given and one.name not in _TRAVELS | _OF_ONE_CALL:
            kept[one.name] = _plain(one.name, value)
    size = len(json.dumps(kept))
    if size > MOST_BYTES:
        fix = "Put the items into a list in a store, and give its URI."
        raise CallerError(f"The template has {size} bytes; it must have {MOST_BYTES} at most.", fix, what="items")
    return kept


def _plain(key: str, value: Any) -> Any:
    """A value in the types that JSON has."""
    try:
        return json.loads(json.dumps(value, default=_listed, allow_nan=False))
    except (TypeError, ValueError):
        allowed = "what JSON has" if key != "items" else "a prefix, a pattern or a list of a store, or texts"
        raise CallerError.about(key, value, allowed, "Give it as a text.") from None


def _listed(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, (set, frozenset, Mapping)) or hasattr(value, "columns"):
        raise TypeError
    return list(value)


def _check_items(site: Site, settings: dict[str, Any]) -> None:
    """Refuse items and inputs that are files of this machine, which nothing that sends a template has."""
    items = settings.get("items", [])
    if items == "-":
        raise CallerError("items is '-', and a template is sent without a person.", _ITEMS_FIX, what="items")
    if isinstance(items, list):
        there = next((item for item in items if isinstance(item, str) and _is_here(item)), None)
        if there is not None and not site.local:
            raise CallerError(f"items: {there!r} is a file of this machine.", _ITEMS_FIX, what="items", value=there)
    check_places(site, settings)


def _is_here(item: str) -> bool:
    return "://" not in item and os.path.lexists(item)


def check_places(site: Site, settings: dict[str, Any]) -> None:
    """Refuse settings that name files of this machine, or somebody to tell whom the stack does not name. On a pipeline
    of this machine items and inputs get their full paths.

    It is checked at each send, too: others may have written the template, and what sends it reads its own files.
    """
    items = settings.get("items", [])
    if isinstance(items, str) and not _URI.match(items):
        settings["items"] = _local(site, "items", items)
    elif not isinstance(items, (str, list)) or any(not isinstance(item, str) for item in items):
        allowed = "a prefix, a pattern or a list of a store, or texts"
        raise CallerError.about("items", items, allowed, "Give values in a list in a store (.jsonl).")
    for name, value in mapping("inputs", settings.get("inputs")).items():
        if isinstance(value, str) and "://" not in value:
            settings["inputs"][name] = _local(site, f"inputs.{name}", value)
    if "notify" in settings and settings["notify"] not in [*site.descriptor.channels]:
        known = ", ".join(sorted(site.descriptor.channels)) or "it has none"
        fix = "The stack's owner declares channels under tidemill:monitoring.job_channels."
        raise CallerError("notify must be a channel of this pipeline in a template: " + known + ".", fix, what="notify")


def _local(site: Site, key: str, path: str) -> str:
    if not site.local:
        raise CallerError(f"{key} is {shown(path)}, a path of this machine.", _ITEMS_FIX, what=key, value=path)
    return os.path.abspath(path)


def _checked(site: Site, name: str, request: JobRequest, settings: dict[str, Any]) -> CheckedSettings:
    """Check the settings as those of a job that is sent now; puts files of the code into the kept command."""
    now = with_time(settings, datetime.now(UTC))
    whole = {"command": None, "items": (), **now, "name": name, "log": request.log}
    checked = check_settings(site, JobRequest(**whole, code=request.code, libs=request.libs))
    check_place(site, checked)
    words = zip(settings.get("command", ()), checked.draft.command or (), strict=True)
    settings |= {"command": [word if has_time(word) else placed for word, placed in words]} if "command" in now else {}
    if isinstance(items := settings.get("items"), str):
        _check_readable(site, items)
    return checked


def _check_readable(site: Site, items: str) -> None:
    """Refuse a pattern or prefix of objects that neither the jobs nor what sends them may read."""
    begins = before_time(items)
    begins = begins[: wild.start()] if (wild := WILD.search(begins)) else begins
    listed = has_time(items) or WILD.search(items) or items.endswith("/")
    readable = site.descriptor.readable_prefixes
    if listed and items.startswith(("s3://", "gs://")) and not begins.startswith(readable):
        allowed = f"below {', '.join(prefix for prefix in readable if '://' in prefix)}"
        raise CallerError.about("items", items, allowed, "Ask the stack's owner to add it to tidemill:data.read.")
