"""Judges resources by the rules without the engine: levels and parameters of an environment, no waivers.

Reviews ask what the rules say of a stack before a change, and tests ask what they say of any. That the engine's pack
says the same, tests/engine/test_policy_pack.py shows.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from .rules import POLICIES
from .rules.common import settings as stack_settings
from .rules.common import waivers


class Found(NamedTuple):
    """A violation as a preview shows it, without the rule's own sentence."""

    rule: str
    level: str
    message: str
    urn: str


def level_of(policy: Policy, said: Any) -> str:
    """The level of a rule where the pack's config says something of it, or nothing."""
    own = policy.enforcement_level or EnforcementLevel.MANDATORY
    level = said.get("enforcementLevel") if isinstance(said, dict) else said
    return level or own.value


def parameters_of(policy: Policy, said: Any) -> dict[str, Any]:
    """The parameters of a rule: the defaults of its schema, and what the pack's config says."""
    schema = policy.config_schema.properties if policy.config_schema else {}
    given = {key: value for key, value in said.items() if key != "enforcementLevel"} if isinstance(said, dict) else {}
    return {key: one["default"] for key, one in schema.items()} | given


def as_settings(config: Mapping[str, Any]) -> stack_settings.Settings:
    """A stack's config as the engine passes it: mappings and lists as JSON."""
    return stack_settings.Settings({k: v if isinstance(v, str) else json.dumps(v) for k, v in config.items()})


def judge(resources: Sequence[PolicyResource], config: Mapping[str, Any], pack: Mapping[str, Any]) -> list[Found]:
    """All violations that the rules report for a stack.

    Args:
        resources: Of the stack.
        config: The stack's, by full keys.
        pack: The pack's: a level, or a level and parameters, by rule.
    """
    before = stack_settings.settings()
    stack_settings.use(as_settings(config))
    waivers.used.clear()
    try:
        return [found for policy in POLICIES for found in _of_policy(policy, resources, pack.get(policy.name) or {})]
    finally:
        stack_settings.use(before)


def _of_policy(policy: Policy, resources: Sequence[PolicyResource], said: Any) -> list[Found]:
    level, parameters = level_of(policy, said), parameters_of(policy, said)
    found: list[Found] = []
    if level == "disabled":
        return found
    if isinstance(policy, StackValidationPolicy):

        def tell(message: str, urn: str | None = None) -> None:
            found.append(Found(policy.name, level, message, urn or ""))

        policy.validate(StackValidationArgs(list(resources), parameters), tell)
    if not isinstance(policy, ResourceValidationPolicy):
        return found
    for resource in resources:

        def tell_of(message: str, urn: str | None = None, of: str = resource.urn) -> None:
            found.append(Found(policy.name, level, message, of))

        policy.validate(as_args(resource, parameters), tell_of)
    return found


def as_args(resource: PolicyResource, parameters: Mapping[str, Any]) -> ResourceValidationArgs:
    """The arguments of a rule about single resources."""
    return ResourceValidationArgs(
        resource.resource_type, resource.props, resource.urn, resource.name, resource.opts, None, parameters
    )
