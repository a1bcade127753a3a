"""Reads the platform team's shared stack from a team's stack: its output `shared`."""

import json
from typing import Any, Literal, TypeVar

import pulumi
from pydantic import BaseModel, ValidationError

from .config import ConfigError

OUTPUT = "shared"
"""Name of the output of a shared stack."""


class SharedOutput(BaseModel):
    """The common part of both clouds' shared stacks; each cloud's model has the rest.

    Unknown keys from a later release are ignored.
    """

    version: Literal[1] = 1
    region: str
    """The region of network and registry."""
    egress: Literal["nat", "endpoints"]
    """How the network's machines reach the internet; they have no public addresses."""
    registry_url: str
    """Prefix of an image's name."""


_Content = TypeVar("_Content", bound=SharedOutput)


def refused(what: str, stack: str, allowed: str, hint: str) -> ConfigError:
    """The error for a shared stack that does not meet a team's stack's needs."""
    return ConfigError(f"tidemill:{what}.shared", json.dumps(stack), allowed, hint)


def shared_output(
    name: str, what: str, stack: str | None, kind: type[_Content], parent: pulumi.Resource
) -> _Content | None:
    """A shared stack's output as plain data; None if a team's stack names none.

    The call is the one that a StackReference itself makes, but before anything is created: a reference to a missing
    stack makes the engine hang up on the program, and other errors show when half of the team's stack exists. The
    reference is created as well, so that the team's state records which stack it depends on.

    Args:
        what: the part that the team's stack uses, `network` or `registry`.

    Raises:
        ConfigError: the stack does not exist, lacks the output, or has one that this release cannot read.
    """
    if stack is None:
        return None
    try:
        outputs = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": stack}).value
    except Exception as error:
        reason = " ".join(str(error).rpartition("returned an error: ")[2].split())
        raise refused(
            what,
            stack,
            f"a stack of the backend that you are logged in to ({reason})",
            "`pulumi stack ls --all` lists them; the shared stack comes before its teams'",
        ) from None
    content = _checked(what, stack, (outputs or {}).get("outputs", {}).get(OUTPUT), kind)
    pulumi.StackReference(f"{name}-shared-{what}", stack_name=stack, opts=pulumi.ResourceOptions(parent=parent))
    return content


def check_region(stack: str | None, content: SharedOutput | None, region: str | None) -> None:
    """Refuse a network outside the region of the team's stack."""
    if stack and content and content.region != region:
        raise refused(
            "network",
            stack,
            f"a stack in {region}, the network of this one is in {content.region}",
            "Name the shared stack there",
        )


def _checked(what: str, stack: str, content: Any, kind: type[_Content]) -> _Content:
    if content is None:
        raise refused(
            what, stack, f"a stack that has the output `{OUTPUT}`", "Name a stack of shared/, after its `pulumi up`"
        )
    cloud = kind.model_fields["cloud"].default
    if isinstance(content, dict) and content.get("cloud", cloud) != cloud:
        raise refused(
            what, stack, f"a stack on {cloud}, this one is on {content['cloud']}", "Name the shared stack there"
        )
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise refused(
            what,
            stack,
            f"an output `{OUTPUT}` of version 1, this one is wrong at {where or 'its type'}",
            "Run `pulumi up` in shared/ with the release that the team's stack uses",
        ) from None
