"""The error of a wrong stack config, and what pydantic finds as such an error."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pulumi
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tidemill.errors import VALUE_SHOWN, CallerError

HIDDEN = "hidden"
"""The type of an error of a model whose value is not shown."""
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "tuple_type": "a list",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping of names to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


class ConfigError(CallerError, pulumi.RunError):
    """A stack's config is wrong. ``str()`` is one line that a person can act on, and all that ``pulumi up`` prints.

    Args:
        what: Path of the key as a stack file has it, ``tidemill:queues.cpu.capacity[0].max_cpus``.
        value: The key's value, as shown; secrets are never shown.
        allowed: Which values are allowed.
        fix: What to do.
        sentence: What is wrong with the key, where "VALUE is not allowed. Allowed: ..." does not say it.
    """

    def __init__(self, what: str, value: str, allowed: str, fix: str, *, sentence: str | None = None) -> None:
        self.sentence = sentence
        problem = sentence or f": {value} is not allowed. Allowed: {allowed.rstrip('.')}"
        end = "" if fix.endswith(("?", ".")) else "."
        super().__init__(f"{what}{problem}.", f"{fix}{end}", what=what, value=value, allowed=allowed)


def refuse(path: Sequence[str | int], model: BaseModel, key: str, allowed: str, hint: str) -> None:
    """Refuse a key that only another cloud has, if it is set."""
    if key in model.model_fields_set and getattr(model, key) is not None:
        value = getattr(model, key)
        plain = value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
        raise ConfigError(key_path([*path, key]), shown(plain), allowed, hint)


def missing(key: str, fix: str) -> ConfigError:
    return ConfigError(key, "nothing", "a value", fix, sentence=" is missing; it is required")


def unknown(key: str, name: str, known: Iterable[str], elsewhere: Sequence[str] = ()) -> ConfigError:
    """The error of a key that nothing has.

    Args:
        known: the keys that are there.
        elsewhere: whole keys of that very name in other places.
    """
    names = list(known)
    guess = " or ".join(elsewhere) or nearest(name, names)
    allowed = f"the keys {', '.join(names)}"
    sentence, fix = " is not a known key", f"Did you mean {guess if elsewhere else repr(guess)}?"
    if not guess:
        sentence, fix = f"{sentence}. Allowed: {allowed}", "Remove the key"
    return ConfigError(key, repr(name), allowed, fix, sentence=sentence)


def shown(value: Any) -> str:
    """A value as an error shows it: JSON, one line, cut when long."""
    if isinstance(value, _NOT_DATA):
        return _as_text(value)
    text = json.dumps(value, default=_as_text, ensure_ascii=False)
    # JSON leaves some line separators as they are, such as U+0085.
    text = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
    return text if len(text) <= VALUE_SHOWN else f"{text[: VALUE_SHOWN - 3]}..."


_NOT_DATA = (pulumi.Output, pulumi.Resource, BaseModel)
"""What a program may give in place of a value."""


def _as_text(value: Any) -> str:
    if isinstance(value, pulumi.Output):
        return "an output of another resource"
    if isinstance(value, pulumi.Resource):
        return f"the resource {value.pulumi_resource_name}"
    return f"an object {type(value).__name__}" if isinstance(value, BaseModel) else str(value)


def key_path(path: Sequence[str | int], root: str = "tidemill:") -> str:
    """``("queues", "cpu", "capacity", 0)`` → ``tidemill:queues.cpu.capacity[0]``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{_plain(part)}" for part in path)
    return f"{root}{text.removeprefix('.')}"


def _plain(part: str) -> str:
    return part if re.fullmatch(r"[\w-]+", part, re.ASCII) else json.dumps(part)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or None."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def from_pydantic(
    error: ValidationError, model: type[BaseModel], at: Sequence[str | int] = (), root: str = "tidemill:"
) -> ConfigError:
    """The one error to show of a pydantic error: an unknown key first, since it often explains the others.

    Args:
        error: what pydantic says.
        model: the model that was validated.
        at: where the model's keys are in a stack's config.
        root: what the names of keys begin with.
    """
    problems = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    problem = problems[0]
    path = [part for part in problem["loc"] if part != "[key]"]
    kind, value, named = problem["type"], problem["input"], key_path([*at, *path], root)
    if kind == "extra_forbidden":
        parent, _ = _walk(model, path[:-1])
        name = str(path[-1])
        return unknown(named, name, parent.model_fields if _is_model(parent) else [], list(_places(model, name, root)))
    _, field = _walk(model, path)
    hint = (field.description if field is not None and field.description else "Correct it").rstrip(".")
    if value is None:
        # An empty section of a file.
        hint = f"Give it a value, or remove the key: {hint}"
    if kind == "missing":
        return missing(named, hint)
    if kind == HIDDEN:
        return ConfigError(named, f"a text of {len(str(value))} characters (not shown)", _allowed(problem), hint)
    allowed = _allowed(problem)
    if isinstance(value, pulumi.Output):
        allowed = f"{allowed} that is known before anything is made"
        hint = "Write it down; docs/composing.md lists the keys that take outputs"
    elif isinstance(value, pulumi.Resource):
        hint = "Give an output of the resource, such as its id or arn"
    return ConfigError(named, shown(value), allowed, hint)


def _allowed(problem: Any) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    words = {
        "literal_error": "{expected}",
        "greater_than": "more than {gt}",
        "greater_than_equal": "{ge} or more",
        "less_than": "less than {lt}",
        "less_than_equal": "{le} or less",
        "too_short": "at least {min_length}",
        "too_long": "at most {max_length}",
        "value_error": "{error}",
    }
    if kind in words:
        return words[kind].format(**context)
    if isinstance(problem["input"], BaseModel) and "class_name" in context:
        return f"an object {context['class_name']}"
    return _TYPES.get(kind) or str(problem["msg"])


def _places(model: type[BaseModel], name: str, at: str) -> Iterator[str]:
    """The whole keys of that name in a model, as an error shows them."""
    for key in model.model_fields:
        if key == name:
            yield f"{at}{key}"
        inner, _ = _walk(model, [key])
        if get_origin(inner) is dict and _is_model(get_args(inner)[-1]):
            yield from _places(get_args(inner)[-1], name, f"{at}{key}.*name*.")
        elif _is_model(inner):
            yield from _places(inner, name, f"{at}{key}.")


def refuse_nulls(model: type[BaseModel], values: Any, at: Sequence[str | int] = (), root: str = "tidemill:") -> None:
    """Refuse a key of a file that is there without a value, where nothing is the default: `shared:` alone would
    silently be a network of the stack's own, and `kms_key:` no key.

    Raises:
        ConfigError: the first such key.
    """
    inner = values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else ()
    for key, value in inner:
        path = [*at, key]
        parent, _ = _walk(model, at)
        if value is None and _is_model(parent) and key in parent.model_fields:
            field = parent.model_fields[key]
            if field.default is None:
                hint = f"Give it a value, or remove the key: {field.description or ''}"
                raise ConfigError(key_path(path, root), "null", "a value", hint)
        refuse_nulls(model, value, path, root)


def _walk(model: type[BaseModel], path: Sequence[str | int]) -> tuple[Any, FieldInfo | None]:
    """The type at a path of a model's keys, and the last field on the way."""
    here: Any = model
    last: FieldInfo | None = None
    for part in path:
        if _is_model(here):
            last = here.model_fields.get(part, last)
            here = here.model_fields[part].annotation if part in here.model_fields else None
        else:
            here = get_args(here)[-1] if get_origin(here) in (dict, list) else None
        if get_origin(here) in (Union, UnionType):
            here = next(each for each in get_args(here) if each is not type(None))
    return here, last


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
