"""Tags and labels that every resource must have."""

from collections.abc import Iterable, Iterator
from typing import Any

from pulumi_policy import ResourceValidationArgs

from .rule import parameter
from .settings import settings
from .values import UNKNOWN, look


def parameters(required: list[str]) -> dict[str, dict]:
    """The parameters of the rules on tags and labels."""
    return {
        "required": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "default": required,
            "description": "Keys that every resource must have with a value, machines and their disks included.",
        },
        "allowed": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "default": {},
            "description": "The values that some of the keys may have; any key may have others.",
        },
    }


def wrong(args: ResourceValidationArgs, *where: str, word: str) -> Iterator[str]:
    """Yield which tags or labels a resource lacks, and which have a value that is not allowed, with the fix.

    Args:
        where: properties that hold them, including those that the provider fills with its defaults.
        word: `tags` or `labels`, for the message.
    """
    yield from wrong_in(args, [look(args.props, key) for key in where], word)


def wrong_in(args: ResourceValidationArgs, maps: Iterable[Any], word: str, of: str = "") -> Iterator[str]:
    """The same of mappings that together hold the tags.

    Args:
        of: What they are put on, where that is not the resource itself, such as `its instances`.
    """
    maps = list(maps)
    if any(held is UNKNOWN for held in maps):
        return
    carried = {key: look(held, key) for held in maps if held for key in held}
    lacking = [key for key in parameter(args, "required") or [] if carried.get(key, "") in ("", None)]
    what = f"{of} lack" if of else "it lacks"
    if lacking:
        named = word.removesuffix("s") if len(lacking) == 1 else word
        yield f"{what} the {named} {', '.join(lacking)}: the cost has no owner. {_fix(lacking, word)}"
    for key, values in sorted((parameter(args, "allowed") or {}).items()):
        value = carried.get(key, UNKNOWN)
        if value is not UNKNOWN and value not in list(values):
            whose = f" of {of}" if of else ""
            yield f"the value {value} of {key}{whose} is not one of {', '.join(values)}. {_fix([key], word)}"


def _fix(keys: list[str], word: str) -> str:
    """Where the keys of a stack file are set. Another program sets them itself."""
    own = [key for key in keys if not key.startswith(("tidemill:", "tidemill-"))]
    if own and settings().text("tidemill:team"):
        return f"Set tidemill:tags.{own[0]} in the stack file, or tidemill:environment_tags in Pulumi.yaml."
    return f"Set them in the {word} of the resource."
