"""Makes the properties and resources that the engine would pass to a rule, unknowns included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pulumi_policy import (
    PolicyCustomTimeouts,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    StackValidationArgs,
)
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

from policy.judging import as_args

Make = Callable[..., ResourceValidationArgs]


def make(kind: str, name: str, props: dict[str, Any], *, protect: bool = False) -> PolicyResource:
    """A resource whose properties behave like pulumi-policy's: access to an unknown value raises."""
    options = PolicyResourceOptions(protect, [], None, [], PolicyCustomTimeouts(0, 0, 0), [])
    urn = f"urn:pulumi:test::tidemill::{kind}::{name}"
    return PolicyResource(kind, unknown_checking_proxy(props), urn, name, options, None, None, [], {})


class Stack:
    """Builds the resources of a stack rule's argument."""

    def __init__(self) -> None:
        self.resources: list[PolicyResource] = []

    def add(self, kind: str, name: str, props: dict[str, Any], **owners: PolicyResource) -> PolicyResource:
        """Add a resource; keyword arguments say which resource each property comes from."""
        resource = make(kind, name, props)
        resource.dependencies.extend(owners.values())
        resource.property_dependencies.update({key: [owner] for key, owner in owners.items()})
        self.resources.append(resource)
        return resource

    def args(self, **parameters: Any) -> StackValidationArgs:
        """The arguments of a stack rule."""
        return StackValidationArgs(self.resources, parameters)


@pytest.fixture
def stack() -> Stack:
    return Stack()


@pytest.fixture
def unknown() -> str:
    """The placeholder of a property that a preview does not know."""
    return UNKNOWN_STRING_VALUE


@pytest.fixture
def resource() -> Make:
    """Make what a rule about single resources is given."""

    def given(props: dict[str, Any], kind: str = "test:index:Thing", **parameters: Any) -> ResourceValidationArgs:
        return as_args(make(kind, "thing", props), parameters)

    return given
