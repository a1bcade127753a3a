"""Common to all components: type tokens, arguments, tags and labels."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import pulumi

TEAM_TAG = "tidemill:team"
ENVIRONMENT_TAG = "tidemill:environment"
MOST_OBJECT_TAGS = 10

_Args = TypeVar("_Args")


class ArgumentError(pulumi.RunError, TypeError):
    """A component's arguments are wrong. `pulumi up` prints the message alone."""


def token(component: type) -> str:
    """The type token of a component class: ``tidemill:index:<Class>``."""
    return f"tidemill:index:{component.__name__}"


def as_args(kind: type[_Args], args: _Args | Mapping[str, Any]) -> _Args:
    """Arguments of a component, from its dataclass or a mapping (which programs in other languages send).

    Raises:
        ArgumentError: a key is missing or unknown; the message names both.
    """
    if isinstance(args, kind):
        return args
    if not isinstance(args, Mapping):
        raise ArgumentError(f"expected {kind.__name__} or a mapping, not {type(args).__name__}")
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(args) - set(names))
    if unknown:
        raise ArgumentError(f"{kind.__name__} has no {', '.join(unknown)}; it has {', '.join(names)}")
    return kind(**args)


def team_tags(team: str, environment: str) -> dict[str, str]:
    """The tags of all resources of a pipeline; cost reports and the submitters' policy depend on them."""
    return {TEAM_TAG: team, ENVIRONMENT_TAG: environment}


def team_labels(team: str, environment: str) -> dict[str, str]:
    """The same as GCP labels, whose keys and values have lower-case letters, digits, hyphens and underscores.

    Source: https://cloud.google.com/resource-manager/docs/labels-overview
    """
    return {"tidemill-team": team, "tidemill-environment": environment}


def named(tags: Mapping[str, pulumi.Input[str]] | None, name: str) -> dict[str, pulumi.Input[str]]:
    """Tags with a ``Name``, by which the AWS console lists some resources."""
    return {**(tags or {}), "Name": name}


def object_tags(tags: Mapping[str, pulumi.Input[str]] | None) -> dict[str, pulumi.Input[str]] | None:
    """Tags of an S3 object, which has at most ten: all of them, or Tidemill's alone where they are more.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
    """
    if tags is None or len(tags) <= MOST_OBJECT_TAGS:
        return None if tags is None else dict(tags)
    return {key: value for key, value in tags.items() if key.startswith("tidemill:")}


def child_name(name: str, imported: str | None) -> str:
    """The logical name of a child that may be imported; the name contains the imported resource's.

    The engine would let an import replace a protected resource and delete that. With a name of its own, each import is
    a different resource, and the deletion of the protected one stops the preview.
    """
    return f"{name}-{imported}" if imported else name
