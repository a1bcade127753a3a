"""Placeholders: the names in braces of a job's command, and their values for an item."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tidemill.job import Item, JobSpec

PLACEHOLDERS = ("input", "output", "uri", "output_uri", "index", "state")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_BRACED_WORD = re.compile(r"\{([A-Za-z_][\w-]*)\}")


def fill(command: Iterable[str], values: Mapping[str, str], more: Iterable[str] = ()) -> list[str]:
    """The command with each placeholder replaced once: braces within a value stay, and so does one without a value.

    `more` are names that are placeholders of this job only.
    """
    extra = [re.escape(name) for name in more]
    pattern = re.compile(rf"\{{({'|'.join([*PLACEHOLDERS, *extra])})\}}") if extra else _PLACEHOLDER
    return [pattern.sub(lambda m: values.get(m[1], m[0]), word) for word in command]


def meta_values(spec: JobSpec, item: Item) -> dict[str, str]:
    """Values of the job's own placeholders for an item."""
    meta = item.meta or {}
    return {name: value_text(meta[name]) for name in spec.placeholders if name in meta}


def value_text(value: Any) -> str:
    """A value of an item's metadata as a program gets it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def child_variables(values: Mapping[str, str]) -> dict[str, str]:
    """The same placeholders as environment variables: ``TIDEMILL_INPUT`` and so on."""
    return {f"TIDEMILL_{name.upper()}": values[name] for name in PLACEHOLDERS if name in values}


def unknown_placeholders(command: Iterable[str]) -> list[str]:
    """Braced words that are not placeholders: they reach the program as they stand (warn, never refuse)."""
    words = [word for text in command for word in _BRACED_WORD.findall(text)]
    return [word for word in dict.fromkeys(words) if word not in PLACEHOLDERS]
