"""The table of resource types (`types/*.yaml`) and its small language.

A row names the operations of a type. Their parameters are templates: `$cidrBlock` is the property of that name,
`$computeResources.maxVcpus` a part of one. Known besides: `$id`, `$out.x` (an output), `$old.x` and `$prior.x` (an
input and an output before the update), `$changed.x` (the property if it changed, of an object the members that did),
`$added.x` and `$removed.x` (of a list or of tags), `$last.x` (the answer before), `$read.x` (of the reads before) and
`$each` (of a loop). `=text {x}` is a text put together from those words.
A parameter whose property is not set is left out, and what would then be empty too; `Name!` as a key says that
without it the whole structure is left out. `"*"` spreads an object into its place.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from .convert import UNKNOWN, nearest, to_api

WORDS = {"id", "out", "old", "prior", "changed", "added", "removed", "last", "each", "read"}


class UnknownTypeError(Exception):
    """A resource type that the table does not hold."""


@dataclass
class Row:
    """What one resource type is; see the module for the templates and types/*.yaml for the fields in use.

    `source` says where the rules were taken from: who reads a replacement in a preview can look it up.
    """

    token: str
    kind: Kind
    service: str
    source: str
    create: dict[str, Any]
    id: str
    read: list[dict[str, Any]]
    delete: list[dict[str, Any]] = field(default_factory=list)
    set: list[dict[str, Any]] = field(default_factory=list)  # after create when given, and on update when changed
    then: list[dict[str, Any]] = field(default_factory=list)  # after create only
    update: list[dict[str, Any]] = field(default_factory=list)  # on update only
    tags: list[dict[str, Any]] = field(default_factory=list)  # on update of tags
    tags_at: str = "Tags || tags"
    labels: bool = False  # tags that the steps themselves write
    out: dict[str, str] = field(default_factory=dict)
    seed: dict[str, str] = field(default_factory=dict)  # outputs that only the answer of create has
    own: list[str] = field(default_factory=list)  # properties that no operation takes
    outputs: list[str] = field(default_factory=list)
    replace: list[str] = field(default_factory=list)
    replace_if: str | None = None
    recomputed: list[str] = field(default_factory=list)  # outputs that every update changes
    computed: list[str] = field(default_factory=list)  # inputs that the cloud fills in when they are not given
    sets: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    required: list[str] = field(default_factory=list)
    allowed: dict[str, Any] = field(default_factory=dict)  # property: pattern, or list of the values
    autoname: dict[str, Any] | None = None
    wait: dict[str, Any] | None = None
    gone: dict[str, Any] | None = None
    first: dict[str, Any] = field(default_factory=dict)  # what a creation's body says where nothing is given
    sent: dict[str, Any] = field(default_factory=dict)  # what goes with a part of every body that lacks it
    at: str = ""  # where it lies, a text as in templates: an id gives its words back
    nested: list[str] = field(default_factory=list)  # parts of an input that the cloud fills in: unknown in a preview

    @property
    def taggable(self) -> bool:
        """Whether the type takes tags."""
        return bool(self.tags) or self.labels

    def steps(self) -> list[dict[str, Any]]:
        """Every step that takes properties in."""
        unset = [step["unset"] for step in self.set + self.update if "unset" in step]
        return [self.create, *self.set, *self.then, *self.update, *unset]

    @functools.cached_property
    def properties(self) -> dict[str, set[str] | None]:
        """The known inputs; for one that is only used by its members, the names of those."""
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
    """The paths that a template refers to."""
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
    """The value at a dotted path, None when a part of it is missing, unknown when it lies in an unknown."""
    value: Any = context
    for part in path.split("."):
        if value == UNKNOWN:
            return UNKNOWN
        if not isinstance(value, dict) or value.get(part) is None:
            return None
        value = value[part]
    return value


def text(template: str, context: dict[str, Any]) -> str:
    """`{x}` in a text replaced by the values of the context; unknown when one of them is."""
    values = {path: lookup(path, context) for path in re.findall(r"\{([\w.]+)\}", template)}
    if UNKNOWN in values.values():
        return UNKNOWN
    return re.sub(
        r"\{([\w.]+)\}", lambda match: str(values[match[1]] if values[match[1]] is not None else ""), template
    )


def fill(template: Any, shape: Any, context: dict[str, Any], names: dict[str, str]) -> Any:
    """Fill a template in for a shape; None when nothing of it is set.

    Raises:
        RefusedError: a property does not fit the shape.
    """
    if isinstance(template, str) and template.startswith("$"):
        value = lookup(template[1:], context)
        return to_api(value, shape, template[1:].removeprefix("changed."), names)
    if isinstance(template, str) and template.startswith("="):
        return text(template[1:], context)
    if isinstance(template, list):
        assert shape.type_name == "list", f"{template} is given for {shape.name}"
        filled = [fill(item, shape.member, context, names) for item in template]
        return [item for item in filled if item is not None] or None
    if isinstance(template, dict):
        assert shape.type_name in ("structure", "map"), f"{template} is given for {shape.name}"
        result: dict[str, Any] = {}
        for key, item in template.items():
            if key == "*":
                result |= fill(item, shape, context, names) or {}
                continue
            member = shape.value if shape.type_name == "map" else shape.members[key.rstrip("!")]
            value = fill(item, member, context, names)
            if key.endswith("!") and value in (None, []):
                return None
            if value is not None:
                result[key.rstrip("!")] = value
        return result or None
    return template


class Kind:
    """What one cloud's types have in common.

    Attributes:
        prefix: Of the type tokens, such as `aws:`.
        folder: Of the table's files.
        words: What templates may use besides WORDS, such as `account`.
        common: Inputs that every type has.
        tags: The input of a resource's own tags, and the one with the default tags too.
        capital: Whether the cloud's own names begin with a capital.
        whole: Whether an answer that lacks something means that it is not set.
    """

    prefix: str
    folder: Path
    words: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()
    tags: tuple[str, str] = ("tags", "tagsAll")
    capital: bool = True
    whole: bool = False

    def shape(self, service: str, operation: str) -> Any:
        """What an operation takes, as a structure of `convert`."""
        raise NotImplementedError

    def made(self, token: str, fields: dict[str, Any]) -> Row:
        """The row of an entry in the table."""
        return Row(token=token, kind=self, **fields)

    def check(self, token: str, inputs: dict[str, Any]) -> None:
        """Refuse what a type refuses beyond its model."""

    def replaces(self, rule: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """The properties that replace a resource under a named condition."""
        raise NotImplementedError

    @functools.cached_property
    def rows(self) -> dict[str, Row]:
        """All rows of the table by type token."""
        found: dict[str, Row] = {}
        for file in sorted(self.folder.glob("*.yaml")):
            for token, fields in yaml.load(file.read_text(), yaml.CSafeLoader).items():
                if token.startswith(self.prefix):
                    found[token] = self.made(token, fields)
        return found

    def row(self, token: str) -> Row:
        """The row of a type token.

        Raises:
            UnknownTypeError: the table has none; the text names the nearest.
        """
        if token not in self.rows:
            raise UnknownTypeError(f"resource type '{token}' is not known to localcloud{nearest(token, self.rows)}")
        return self.rows[token]
