"""Builds a review from previews."""

import datetime
from collections import Counter
from collections.abc import Iterable

from ops.engine_messages import advice
from ops.required_tags import required
from ops.review import access, capacity, compute, network, results, sending, spot, state, tags, watch, work
from ops.review.capacity import Prices
from ops.review.diffs import properties
from ops.review.document import Preview, Step
from ops.review.models import SEVERITIES, Change, Finding, Review, StackReview
from ops.review.values import clean
from tidemill import prices as known_prices

# A replacement is three steps to the engine but one change to a reviewer.
_ONE_CHANGE = ("create-replacement", "delete-replaced", "discard-replaced", "read-replacement", "import-replacement")
_KEPT = ("same", "read", "refresh", "diff")
_ORDER = ("delete", "replace", "update", "import", "create")


def build(
    previews: Iterable[Preview],
    today: datetime.date | None = None,
    prices: Prices = known_prices,
    guardrails: Iterable[Finding] = (),
) -> Review:
    """Review previews, in the order of their stacks' names.

    Args:
        guardrails: Findings about what guards all stacks.
    """
    day = today or datetime.datetime.now(datetime.UTC).date()
    reviews = [_stack(preview, day, prices) for preview in previews]
    guarded = tuple(sorted((_clean(finding) for finding in guardrails), key=_place))
    return Review(stacks=tuple(sorted(reviews, key=lambda review: review.stack)), guardrails=guarded)


def _stack(preview: Preview, today: datetime.date, prices: Prices) -> StackReview:
    steps = _of_clouds(preview.steps)
    policies = results.results(preview)
    used = capacity.PriceRecorder(prices)
    fleets = capacity.fleets(steps, preview.cloud, preview.region, used)
    idle = (*capacity.idle(steps, preview.cloud, preview.region, used), *sending.idle(preview, used))
    listed = [
        *results.removed(preview),
        *results.findings(preview, policies, today),
        *state.findings(steps),
        *state.unlocked(preview.steps),
        *compute.findings(steps),
        *access.findings(steps),
        *network.findings(steps),
        *watch.findings(steps),
        *tags.findings(steps, required(preview.cloud, preview.environment)),
        *work.findings(steps),
        *sending.findings(preview),
        *capacity.findings(fleets, steps),
        *spot.findings(steps, preview.cloud, preview.region, prices, preview.spot),
    ]
    counts = Counter(step.op for step in steps)
    if preview.unchanged:
        counts["same"] = preview.unchanged
    return StackReview(
        stack=preview.stack,
        cloud=preview.cloud,
        region=preview.region,
        environment=preview.environment,
        failed=preview.exit_code != 0,
        errors=tuple(clean(line) for line in [*preview.told, *advice(preview.told)]),
        counts=dict(sorted(counts.items())),
        findings=tuple(sorted((_clean(finding) for finding in listed), key=_place)),
        fleets=fleets,
        idle=idle,
        policies=policies,
        waivers=results.waivers(preview, today),
        whole=preview.unchanged is None and preview.preview is not None,
        first=preview.first,
        base=str(preview.base) if preview.base else None,
        prices=str(used.origin) if used.origin else None,
        changes=tuple(sorted((_change(step) for step in steps if step.op not in _KEPT), key=_row)),
    )


def _of_clouds(steps: list[Step]) -> list[Step]:
    """Cloud resources, one step each, without components and providers."""
    kept = [step for step in steps if not step.type.startswith(("pulumi:", "tidemill:"))]
    whole = {step.urn for step in kept if step.op not in _ONE_CHANGE}
    return [step for step in kept if step.op not in _ONE_CHANGE or step.urn not in whole]


def _change(step: Step) -> Change:
    return Change(op=step.op, type=step.type, name=step.name, urn=step.urn, properties=properties(step))


def _clean(finding: Finding) -> Finding:
    lines = tuple(str(clean(line)) for line in finding.details)
    return Finding(finding.severity, finding.kind, finding.resource, finding.urn, str(clean(finding.title)), lines)


def _place(finding: Finding) -> tuple:
    # The reason for a failed preview comes first: it tells how far to trust the rest.
    whole = finding.kind != "failed"
    return (SEVERITIES.index(finding.severity), whole, finding.kind, finding.resource, finding.title, finding.urn)


def _row(change: Change) -> tuple:
    order = _ORDER.index(change.op) if change.op in _ORDER else len(_ORDER)
    return (order, change.type, change.name, change.urn)
