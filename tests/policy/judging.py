"""Runs the whole pack on resources as the engine would: levels and parameters of an environment, waivers.

It does not prove that the engine does the same: tests/engine/test_policy_pack.py runs the real one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyCustomTimeouts,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import unknown_checking_proxy

from policy.rules import POLICIES
from policy.rules.common import settings as stack_settings
from policy.rules.common import waivers
from tests.components.recording import Made, Recorder

ENVIRONMENTS = Path(__file__).parents[2] / "policy" / "environments"


class Found(NamedTuple):
    """A violation as a preview shows it."""

    rule: str
    level: str
    message: str
    urn: str


def environment(name: str) -> dict[str, Any]:
    """The pack's config of an environment, as the engine reads it."""
    own = ENVIRONMENTS / f"{name}.json"
    return json.loads((own if own.is_file() else ENVIRONMENTS / "default.json").read_text())


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


def judge(
    resources: Sequence[PolicyResource], config: Mapping[str, Any], pack: Mapping[str, Any] | None = None
) -> list[Found]:
    """All violations that the pack reports for a stack.

    Args:
        resources: of the stack.
        config: the stack's, by full keys.
        pack: the pack's; that of the stack's environment by default.
    """
    if pack is None:
        pack = environment(str(config.get("tidemill:environment", "default")))
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


def resources_of(recorder: Recorder) -> list[PolicyResource]:
    """The recorded resources, in the form that a rule receives."""
    made = {one.urn: _resource(one) for one in recorder.resources}
    for one in recorder.resources:
        for key, urns in one.options["property_dependencies"].items():
            made[one.urn].property_dependencies[key] = [made[urn] for urn in urns if urn in made]
    return list(made.values())


def _resource(made: Made) -> PolicyResource:
    options = PolicyResourceOptions(bool(made.options["protect"]), [], None, [], PolicyCustomTimeouts(0, 0, 0), [])
    props = unknown_checking_proxy(made.inputs)
    return PolicyResource(made.type, props, made.urn, made.name, options, None, None, [], {})
