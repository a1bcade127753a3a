"""How a team's stack reads what the platform team's shared stack says of itself: its output `shared`."""

from __future__ import annotations

import json
from typing import Any, Literal, TypeVar

import pulumi
from pydantic import BaseModel, ValidationError

from components.config import ConfigError

OUTPUT = "shared"
"""Name of the output of a shared stack."""


class SharedOutput(BaseModel):
    """What both clouds' shared stacks say of themselves; a model of each cloud has the rest.

    A later release may say more than this one knows; what it does not know is ignored.
    """

    version: Literal[1] = 1
    region: str
    """Where network and registry are."""
    egress: Literal["nat", "endpoints"]
    """How machines of the network reach the world; they have no addresses of their own."""
    registry_url: str
    """What comes before an image's name."""


_Content = TypeVar("_Content", bound=SharedOutput)


def refused(what: str, stack: str, allowed: str, hint: str) -> ConfigError:
    """The error of a shared stack that is not what a team's stack needs.

    Args:
        what: what the team's stack uses of it, `network` or `registry`.
        stack: `organization/project/stack`.
        allowed: which stacks are.
        hint: what to do.
    """
    return ConfigError(f"tidemill:{what}.shared", json.dumps(stack), allowed, hint)


def shared_output(
    name: str, what: str, stack: str | None, kind: type[_Content], parent: pulumi.Resource
) -> _Content | None:
    """What a shared stack says of itself, as plain data; None where a team's stack names none.

    It is asked for before anything is made, by the call that a StackReference makes itself: a reference to a stack that
    is not there makes the engine hang up on the program, and what is wrong in one is found when half of the team's
    stack is made. The reference is made as well, so that the team's state tells which stack it depends on.

    Args:
        name: the pipeline's name.
        what: what the team's stack uses of it, `network` or `registry`.
        stack: `organization/project/stack`.
        kind: model of the output on the team's cloud.
        parent: the pipeline.

    Raises:
        ConfigError: the stack is not there, has no such output, or one that this release cannot read.
    """
    if stack is None:
        return None
    try:
        found = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": stack}).value
    except Exception as error:
        reason = " ".join(str(error).rpartition("returned an error: ")[2].split())
        raise refused(
            what,
            stack,
            f"a stack of the backend that you are logged in to ({reason})",
            "`pulumi stack ls --all` lists them; the shared stack comes before its teams'",
        ) from None
    content = _checked(what, stack, (found or {}).get("outputs", {}).get(OUTPUT), kind)
    pulumi.StackReference(f"{name}-shared-{what}", stack_name=stack, opts=pulumi.ResourceOptions(parent=parent))
    return content


def check_region(stack: str | None, content: SharedOutput | None, region: str | None) -> None:
    """Refuse a network that is in another region than the team's stack."""
    if stack and content and content.region != region:
        raise refused(
            "network",
            stack,
            f"a stack in {region}, the network of this one is in {content.region}",
            "Name the shared stack there",
        )


def _checked(what: str, stack: str, found: Any, kind: type[_Content]) -> _Content:
    if found is None:
        raise refused(
            what, stack, f"a stack that has the output `{OUTPUT}`", "Name a stack of shared/, after its `pulumi up`"
        )
    cloud = kind.model_fields["cloud"].default
    if isinstance(found, dict) and found.get("cloud", cloud) != cloud:
        raise refused(
            what, stack, f"a stack on {cloud}, this one is on {found['cloud']}", "Name the shared stack there"
        )
    try:
        return kind.model_validate(found)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise refused(
            what,
            stack,
            f"an output `{OUTPUT}` of version 1, this one is wrong at {where or 'its type'}",
            "Run `pulumi up` in shared/ with the release that the team's stack uses",
        ) from None
