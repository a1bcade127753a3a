"""The table of resource types (`types/*.yaml`) and its small language.

A row names the operations of a type. Their parameters are templates: `$cidrBlock` is the property of that name,
`$computeResources.maxVcpus` a part of one. Also known are `$id`, `$out.x` (an output), `$old.x` and `$prior.x` (an
input and an output before the update), `$changed.x` (the property if it changed; of an object, the changed members),
`$added.x` and `$removed.x` (of a list or of tags), `$last.x` (the previous answer), `$read.x` (of the earlier reads)
and `$each` (of a loop). `=text {x}` is a text composed of those words.
A parameter is left out if its property is not set, as is a structure that would then be empty; `[]` is an empty list.
If the parameter of a key `Name!` is not set, the whole structure is left out. `"*"` spreads an object into its place.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .convert import UNKNOWN, RefusedError, nearest, to_api

WORDS = {"id", "out", "old", "prior", "changed", "added", "removed", "last", "each", "read"}


class UnknownTypeError(Exception):
    """The table does not have this resource type."""


@dataclass
class Row:
    """One resource type. The module describes the templates, and types/*.yaml shows the fields in use.

    `source` says where the rules come from, so that the reason for a replacement in a preview can be looked up.
    """

    token: str
    kind: Kind
    service: str
    source: str
    create: dict[str, Any]
    id: str
    read: list[dict[str, Any]]
    delete: list[dict[str, Any]] = field(default_factory=list)
    set: list[dict[str, Any]] = field(default_factory=list)  # after create if given, and on update if changed
    then: list[dict[str, Any]] = field(default_factory=list)  # after create only
    update: list[dict[str, Any]] = field(default_factory=list)  # on update only
    tags: list[dict[str, Any]] = field(default_factory=list)  # on update of tags
    tags_at: str = "listed.Tags || listed.tags || Tags || tags"
    labels: bool = False  # the steps themselves write the tags
    out: dict[str, str] = field(default_factory=dict)
    seed: dict[str, str] = field(default_factory=dict)  # outputs that only the answer of create has
    own: list[str] = field(default_factory=list)  # properties that no operation takes
    outputs: list[str] = field(default_factory=list)
    replace: list[str] = field(default_factory=list)
    replace_if: str | None = None
    recomputed: list[str] = field(default_factory=list)  # outputs that every update changes
    computed: list[str] = field(default_factory=list)  # inputs that the cloud fills in if they are not given
    sets: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    allowed: dict[str, Any] = field(default_factory=dict)  # property: a pattern, or a list of the values
    autoname: dict[str, Any] | None = None
    wait: dict[str, Any] | None = None
    gone: dict[str, Any] | None = None
    first: dict[str, Any] = field(default_factory=dict)  # defaults in the body of a creation
    sent: dict[str, Any] = field(default_factory=dict)  # additions to each body that lacks a part
    at: str = ""  # its place, a text like a template: an id is parsed back into its words
    nested: list[str] = field(default_factory=list)  # parts of an input that the cloud fills in: unknown in a preview

    @property
    def taggable(self) -> bool:
        return bool(self.tags) or self.labels

    def steps(self) -> list[dict[str, Any]]:
        unset = [step["unset"] for step in self.set + self.update if "unset" in step]
        return [self.create, *self.set, *self.then, *self.update, *unset]

    @functools.cached_property
    def properties(self) -> dict[str, set[str] | None]:
        """The known inputs. If only members of an input are used, their names."""
        found: dict[str, set[str] | None] = dict.fromkeys(self.own)
        found |= dict.fromkeys(self.kind.common)
        if self.taggable:
            found |= dict.fromkeys(self.kind.tags)
        for step in self.steps():
            for path in references([step.get("params", {}), step.get("if")]):
                root, _, rest = path.partition(".")
                if root in ("changed", "added", "removed", "old"):
                    root, _, rest = rest.partition(".")
                if root in WORDS | self.kind.words:
                    continue
                if not rest or found.get(root, set()) is None:
                    found[root] = None
                else:
                    found[root] = (found.get(root) or set()) | {rest.partition(".")[0]}
        return found


def references(template: Any) -> list[str]:
    """Return the paths that a template refers to."""
    if isinstance(template, dict):
        return [path for item in template.values() for path in references(item)]
    if isinstance(template, list):
        return [path for item in template for path in references(item)]
    if isinstance(template, str) and template.startswith("$"):
        return [template[1:]]
    if isinstance(template, str) and template.startswith("="):
        return re.findall(r"\{([\w.]+)\}", template)
    return []


def lookup(path: str, context: dict[str, Any]) -> Any:
    """Return the value at a dotted path; None if a part is missing, unknown if it lies in an unknown."""
    value: Any = context
    for part in path.split("."):
        if value == UNKNOWN:
            return UNKNOWN
        if not isinstance(value, dict) or value.get(part) is None:
            return None
        value = value[part]
    return value


def text(template: str, context: dict[str, Any]) -> str:
    """Replace each `{x}` in a text by its value in the context; unknown if one of the values is."""
    values = {path: lookup(path, context) for path in re.findall(r"\{([\w.]+)\}", template)}
    if UNKNOWN in values.values():
        return UNKNOWN
    return re.sub(
        r"\{([\w.]+)\}", lambda match: str(values[match[1]] if values[match[1]] is not None else ""), template
    )


def fill(template: Any, shape: Any, context: dict[str, Any], names: dict[str, str]) -> Any:
    """Fill in a template for a shape; None if nothing in it is set.

    Raises:
        RefusedError: A property does not fit the shape.
    """
    if isinstance(template, str) and template.startswith("$"):
        value, key = lookup(template[1:], context), template[1:].removeprefix("changed.")
        try:
            return to_api(value, shape, key, names)
        except (AttributeError, KeyError, LookupError, TypeError, ValueError) as error:
            raise RefusedError(key, f"localcloud cannot read it: {type(error).__name__}: {error}") from error
    if isinstance(template, str) and template.startswith("="):
        return text(template[1:], context)
    if isinstance(template, list):
        assert shape.type_name == "list", f"{template} is given for {shape.name}"
        filled = [fill(item, shape.member, context, names) for item in template]
        kept = [item for item in filled if item is not None]
        return kept if kept or not template else None
    if isinstance(template, dict):
        return _object(template, shape, context, names)
    return template


def _object(template: dict[str, Any], shape: Any, context: dict[str, Any], names: dict[str, str]) -> Any:
    assert shape.type_name in ("structure", "map"), f"{template} is given for {shape.name}"
    result: dict[str, Any] = {}
    for key, item in template.items():
        if key == "*":
            spread = fill(item, shape, context, names)
            if spread == UNKNOWN:
                return UNKNOWN
            result |= spread or {}
            continue
        member = shape.value if shape.type_name == "map" else shape.members[key.rstrip("!")]
        value = fill(item, member, context, names)
        if key.endswith("!") and value in (None, []):
            return None
        if value is not None:
            result[key.rstrip("!")] = value
    return result or None


class Kind:
    """What all types of one cloud share.

    Attributes:
        prefix: Prefix of the type tokens, such as `aws:`.
        folder: Folder of the table's files.
        words: What templates may use in addition to WORDS, such as `account`.
        common: Inputs that every type has.
        tags: The input for a resource's own tags, and the input that includes the default tags.
        capital: Whether the cloud's own names begin with a capital.
        whole: Whether a value missing from an answer is not set.
    """

    prefix: str
    folder: Path
    words: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    tags: tuple[str, str] = ("tags", "tagsAll")
    capital: bool = True
    whole: bool = False

    def shape(self, service: str, operation: str) -> Any:
        """Return what an operation takes, as a structure of `convert`."""
        raise NotImplementedError

    def made(self, token: str, fields: dict[str, Any]) -> Row:
        """Return the row of an entry in the table."""
        return Row(token=token, kind=self, **fields)

    def check(self, token: str, inputs: dict[str, Any]) -> None:
        """Refuse what a type refuses beyond its model."""

    def replaces(self, rule: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """Return the properties that replace a resource under a named condition."""
        raise NotImplementedError

    @functools.cached_property
    def rows(self) -> dict[str, Row]:
        found: dict[str, Row] = {}
        for file in sorted(self.folder.glob("*.yaml")):
            for token, fields in yaml.load(file.read_text(), yaml.CSafeLoader).items():
                if token.startswith(self.prefix):
                    found[token] = self.made(token, fields)
        return found

    def row(self, token: str) -> Row:
        """Return the row of a type token.

        Raises:
            UnknownTypeError: The table has none; the text names the nearest.
        """
        if token not in self.rows:
            raise UnknownTypeError(f"resource type '{token}' is not known to localcloud{nearest(token, self.rows)}")
        return self.rows[token]
