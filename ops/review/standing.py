"""What stood before a change: violations, waivers and overrides that the base has too are not the change's doing."""

import json
from typing import Any

from ops import project
from ops.review.document import Preview, State, Step, WaiverEntry


def violations(preview: Preview) -> frozenset[tuple[str, str, str]]:
    """What the policies say of the stack's resources as they were: rule, URN and message of each violation.

    A violation that gets worse has other words where its rule names the value, so it is not among them.
    """
    if not preview.policies or not any(step.before for step in preview.steps):
        return frozenset()
    # A review without policy messages does not load the pack.
    from policy.judging import judge  # noqa: PLC0415

    pack = json.loads(project.policy_config(preview.environment or "default").read_text(encoding="utf-8"))
    # Rules about single resources see their inputs, those about the stack also what the cloud added.
    found = [*judge(_resources(preview, outputs=False), _config(preview), pack)]
    found += judge(_resources(preview, outputs=True), _config(preview), pack)
    return frozenset((each.rule, each.urn, each.message.strip()) for each in found)


def words(rule: str, message: str) -> str:
    """A message of the pack without its rule's own sentence and without the waiver of it."""
    from policy.rules import POLICIES  # noqa: PLC0415

    sentences = [policy.description for policy in POLICIES if policy.name == rule]
    said = message.partition("\nWaived until ")[0].strip()
    return said.removeprefix(sentences[0]).strip() if sentences else said


def waived(preview: Preview, waiver: WaiverEntry) -> bool:
    """True if the base has a waiver, until the same day or later."""
    given = preview.base.config.get("tidemill:waivers") if preview.base else None
    before = [WaiverEntry.model_validate(each) for each in given or []]
    same = [each for each in before if (each.rule, each.resource) == (waiver.rule, waiver.resource)]
    return any(each.until >= waiver.until for each in same)


def overridden(preview: Preview, key: str) -> bool:
    """True if the base sets the same properties of a resource by `tidemill:overrides`."""
    given = preview.base.config.get("tidemill:overrides") if preview.base else None
    return bool(given) and given.get(key) == preview.overrides[key]


def _config(preview: Preview) -> dict[str, Any]:
    """The stack's config before; without a base, today's."""
    if preview.base and preview.base.config:
        return preview.base.config
    own = {f"tidemill:{key}": value for key, value in preview.config.items() if value is not None}
    return {**own, **({f"{preview.cloud}:region": preview.region} if preview.region else {})}


def _resources(preview: Preview, *, outputs: bool) -> list[Any]:
    from pulumi_policy import PolicyCustomTimeouts, PolicyResource, PolicyResourceOptions  # noqa: PLC0415

    def resource(step: Step, state: State) -> PolicyResource:
        options = PolicyResourceOptions(state.protect, [], None, [], PolicyCustomTimeouts(0, 0, 0), [])
        props = {**state.outputs, **state.inputs} if outputs else state.inputs
        return PolicyResource(step.type, props, step.urn, step.name, options, None, None, [], {})

    states = {step.urn: state for step in preview.steps if (state := step.before)}
    found = {step.urn: resource(step, step.before) for step in preview.steps if step.before}
    for urn, state in states.items():
        for key, sources in state.property_dependencies.items():
            found[urn].property_dependencies[key] = [found[each] for each in sources or [] if each in found]
    return [*found.values()]
