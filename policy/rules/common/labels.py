"""Tags and labels that every resource must have."""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .rule import parameter
from .values import UNKNOWN, look


def parameters(required: list[str]) -> dict[str, dict]:
    """The parameter of the rules on tags and labels."""
    return {
        "required": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "default": required,
            "description": "Keys that every resource must have.",
        }
    }


def missing(args: ResourceValidationArgs, *where: str, word: str) -> Iterator[str]:
    """Yield which tags or labels a resource lacks, with the fix.

    Args:
        where: properties that hold them, including those that the provider fills with its defaults.
        word: `tag` or `label`, for the message.
    """
    maps = [look(args.props, key) for key in where]
    if any(held is UNKNOWN for held in maps):
        return
    carried = {key for held in maps if held for key in held}
    lacking = [key for key in parameter(args, "required") or [] if key not in carried]
    if lacking:
        yield f"it lacks the {word} {', '.join(lacking)}: its cost has no owner. Add them."
