"""The preview's outcome, policy messages, waivers and overrides.

Those that the base has too are not the change's doing, and are told as such.
"""

import datetime
import json
from collections.abc import Iterator
from typing import Any

from ops import project
from ops.review.document import Policy, Preview, State, Step, WaiverEntry
from ops.review.models import Finding, PolicyResult, Severity, Waiver
from ops.review.values import clean
from tidemill.figures import counted

_SOON_DAYS = 14
_MANDATORY = ("mandatory", "remediate")


def findings(preview: Preview, policies: tuple[PolicyResult, ...], today: datetime.date) -> Iterator[Finding]:
    """Findings of the kinds `failed`, `policy`, `waiver` and `override`."""
    if preview.exit_code:
        count = sum(result.level in _MANDATORY for result in policies)
        why = "mandatory policies are violated" if count and not preview.told else "the preview failed"
        rules = sorted({result.rule for result in policies if result.level in _MANDATORY})
        title = f"{why}: up would not run, and what follows may be incomplete"
        yield Finding("critical", "failed", "", "", title, tuple(rules))
    elif stopped := sorted(step.name for step in preview.steps if step.op in ("delete", "replace") and step.stopped):
        # A preview on a base lifts protection to show the whole change.
        yield Finding("critical", "failed", "", "", "up would not run: it deletes what is protected", tuple(stopped))
    stood = _violations(preview)
    for result, message in zip(policies, _sorted(preview), strict=True):
        title, severity = f"{result.rule}, {result.level}", _severity(result)
        said = (result.rule, message.urn or "", _words(result.rule, message.message)) if stood else None
        if result.level not in _MANDATORY and said in stood:
            # The change is not the cause, and each review would say it again.
            title, severity = f"{title}, as before", "low"
        lines = tuple(result.message.splitlines())
        yield Finding(severity, "policy", result.resource, message.urn or "", title, lines)
    for entry in preview.waivers:
        yield _waiver(entry, today, stood=_waived(preview, entry))
    yield from _overrides(preview)


def _overrides(preview: Preview) -> Iterator[Finding]:
    """Properties that a stack file sets beside the components; what a preview leaves out of them is not judged."""
    changed = {step.name for step in preview.steps if step.op != "same"}
    for key, properties in sorted(preview.overrides.items()):
        name, stood = key.rpartition("/")[2], _overridden(preview, key)
        same = stood or (name not in changed and bool(preview.steps))
        lines = tuple(f"{each}: {json.dumps(value, sort_keys=True)}" for each, value in sorted(properties.items()))
        title = f"tidemill:overrides sets {', '.join(sorted(properties))}{', as before' if stood else ''}"
        yield Finding("low" if same else "medium", "override", name, "", title, lines)
        if left := preview.not_judged.get(key):
            title = f"not judged: {', '.join(left)}, which localcloud does not imitate{', as before' if stood else ''}"
            told = f"`python -m ops preview --stack {preview.stack} --on login` shows what it does."
            yield Finding("low" if stood else "high", "override", name, "", title, (told,))


def _violations(preview: Preview) -> frozenset[tuple[str, str, str]]:
    """Rule, URN and message of each violation that the policies report of the resources as they were.

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


def _words(rule: str, message: str) -> str:
    """A message of the pack without its rule's own sentence and without the waiver of it."""
    from policy.rules import POLICIES  # noqa: PLC0415

    sentences = [policy.description for policy in POLICIES if policy.name == rule]
    said = message.partition("\nWaived until ")[0].strip()
    return said.removeprefix(sentences[0]).strip() if sentences else said


def _waived(preview: Preview, waiver: WaiverEntry) -> bool:
    """True if the base has a waiver, until the same day or later."""
    given = preview.base.config.get("tidemill:waivers") if preview.base else None
    before = [WaiverEntry.model_validate(each) for each in given or []]
    same = [each for each in before if (each.rule, each.resource) == (waiver.rule, waiver.resource)]
    return any(each.until >= waiver.until for each in same)


def _overridden(preview: Preview, key: str) -> bool:
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


def removed(preview: Preview) -> Iterator[Finding]:
    """The finding of the kind `stack-removed`: a stack whose file goes while its resources stay."""
    if preview.removed is None:
        return
    count, file = preview.removed.resources, f"stacks/Pulumi.{preview.stack}.yaml"
    if count == 0:
        yield Finding("low", "stack-removed", file, "", "the stack's file goes; its backend has no resources of it")
        return
    what = "its resources" if count is None else f"its {counted(count, 'resource')}"
    title = f"the stack's file goes: {what} stay in the cloud, and nothing manages them"
    told = (
        f"To give the stack up, destroy it first: `pulumi destroy --stack {preview.stack}`.",
        "To rename a file keep the stack's: a stack cannot change its name, team or environment.",
    )
    yield Finding("critical", "stack-removed", file, "", title, told)


def _waiver(waiver: WaiverEntry, today: datetime.date, *, stood: bool) -> Finding:
    about, why = str(waiver.resource or ""), (str(clean(waiver.reason)),)
    if waiver.until < today:
        return Finding("high", "waiver", about, "", f"{waiver.rule}: the waiver ended on {waiver.until}", why)
    soon = waiver.until - today <= datetime.timedelta(days=_SOON_DAYS)
    title = f"{waiver.rule} is waived; the waiver ends {'soon, ' if soon else ''}on {waiver.until}"
    if stood and not soon:
        return Finding("low", "waiver", about, "", f"{title}, as before", why)
    return Finding("medium", "waiver", about, "", title, why)


def results(preview: Preview) -> tuple[PolicyResult, ...]:
    """Policy pack messages, mandatory first."""
    return tuple(
        PolicyResult(
            rule=policy.rule,
            level=policy.level,
            severity=policy.severity,
            resource=(policy.urn or "").split("::", 3)[-1],
            message=str(clean(policy.message.strip())),
        )
        for policy in _sorted(preview)
    )


def waivers(preview: Preview, today: datetime.date) -> tuple[Waiver, ...]:
    """The waivers, sorted by their last day."""
    rows = [
        Waiver(w.rule, w.resource, str(clean(w.reason)), w.until.isoformat(), w.until < today) for w in preview.waivers
    ]
    return tuple(sorted(rows, key=lambda w: (w.until, w.rule, w.resource or "")))


def _sorted(preview: Preview) -> list[Policy]:
    return sorted(preview.policies, key=lambda p: (p.level not in _MANDATORY, p.rule, p.urn or "", p.message))


def _severity(result: PolicyResult) -> Severity:
    if result.level in _MANDATORY:
        return "critical" if result.severity == "critical" else "high"
    # An advisory message stops nothing: it is at most medium.
    return "low" if result.severity == "low" else "medium"
