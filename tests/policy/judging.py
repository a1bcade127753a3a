"""Runs the whole pack on resources as the engine would: levels and parameters of an environment, waivers.

It does not prove that the engine does the same: tests/engine/test_policy_pack.py runs the real one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pulumi_policy import PolicyCustomTimeouts, PolicyResource, PolicyResourceOptions
from pulumi_policy.proxy import unknown_checking_proxy

from policy import judging
from policy.judging import Found
from tests.components.recording import Made, Recorder

ENVIRONMENTS = Path(__file__).parents[2] / "policy" / "environments"


def environment(name: str) -> dict[str, Any]:
    """The pack's config of an environment, as the engine reads it."""
    own = ENVIRONMENTS / f"{name}.json"
    return json.loads((own if own.is_file() else ENVIRONMENTS / "default.json").read_text())


def judge(
    resources: Sequence[PolicyResource], config: Mapping[str, Any], pack: Mapping[str, Any] | None = None
) -> list[Found]:
    """All violations that the pack reports for a stack.

    Args:
        resources: of the stack.
        config: the stack's, by full keys.
        pack: the pack's; that of the stack's environment by default.
    """
    given = environment(str(config.get("tidemill:environment", "default"))) if pack is None else pack
    return judging.judge(resources, config, given)


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
