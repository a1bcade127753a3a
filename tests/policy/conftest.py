"""Makes the properties and resources that the engine would hand to a rule, unknowns included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pulumi_policy import PolicyCustomTimeouts, PolicyResource, PolicyResourceOptions
from pulumi_policy.proxy import UNKNOWN_STRING_VALUE, unknown_checking_proxy

Props = Callable[[dict[str, Any]], Mapping[str, Any]]


class Stack:
    """Builds the resources of a stack rule's argument."""

    def __init__(self) -> None:
        self.resources: list[PolicyResource] = []

    def add(self, kind: str, name: str, props: dict[str, Any], **owners: PolicyResource) -> PolicyResource:
        """Add a resource; keyword arguments say which of its properties comes from which resource."""
        options = PolicyResourceOptions(False, [], None, [], PolicyCustomTimeouts(0, 0, 0), [])
        resource = PolicyResource(
            resource_type=kind,
            props=unknown_checking_proxy(props),
            urn=f"urn:pulumi:test::tidemill::{kind}::{name}",
            name=name,
            opts=options,
            provider=None,
            parent=None,
            dependencies=list(owners.values()),
            property_dependencies={key: [owner] for key, owner in owners.items()},
        )
        self.resources.append(resource)
        return resource


@pytest.fixture
def stack() -> Stack:
    return Stack()


@pytest.fixture
def unknown() -> str:
    """What stands in a property that a preview does not know."""
    return UNKNOWN_STRING_VALUE


@pytest.fixture
def props() -> Props:
    """Wrap inputs as pulumi-policy does: access to an unknown value raises."""
    return unknown_checking_proxy
