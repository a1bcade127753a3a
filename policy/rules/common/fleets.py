"""The fleets of a stack: its compute environments, and its instance groups with their autoscalers and templates."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pulumi_policy import PolicyResource

from tidemill.planned_fleet import PlannedFleet, of_environment, of_group

from .kinds import AUTOSCALERS, COMPUTE_ENVIRONMENT, GROUPS, TEMPLATES
from .values import look, plain


def named_by(
    resources: Sequence[PolicyResource], owner: PolicyResource, key: str, value: Any, kinds: Sequence[str]
) -> PolicyResource | None:
    """The resource of a stack that a property names, by its id or, while that is unknown, by the output's source."""
    candidates = [r for r in resources if r.resource_type in kinds]
    if isinstance(value, str):
        for resource in candidates:
            names = {look(resource.props, k) for k in ("id", "selfLink", "selfLinkUnique", "name")}
            if not names.isdisjoint((value, value.rpartition("/")[2])):
                return resource
    sources = [r for r in owner.property_dependencies.get(key, []) if r.resource_type in kinds]
    return sources[0] if sources else None


def group_of(resources: Sequence[PolicyResource], autoscaler: PolicyResource) -> PolicyResource | None:
    return named_by(resources, autoscaler, "target", look(autoscaler.props, "target"), GROUPS)


def template_of(resources: Sequence[PolicyResource], group: PolicyResource) -> PolicyResource | None:
    named = look(group.props, "versions", 0, "instanceTemplate")
    return named_by(resources, group, "versions", named, TEMPLATES)


def planned(resources: Sequence[PolicyResource]) -> Iterator[PlannedFleet]:
    """Every group of a stack that an autoscaler sizes or that sizes itself; the URN is that of what sizes it."""
    scaled: list[PolicyResource | None] = []
    for autoscaler in (r for r in resources if r.resource_type in AUTOSCALERS):
        group = group_of(resources, autoscaler)
        scaled.append(group)
        yield _fleet(resources, autoscaler.urn, group, plain(autoscaler.props))
    for group in (r for r in resources if r.resource_type in GROUPS and r not in scaled):
        yield _fleet(resources, group.urn, group, None)


def groups(resources: Sequence[PolicyResource]) -> list[PlannedFleet]:
    """The groups of a stack whose size is known."""
    return [fleet for fleet in planned(resources) if fleet.cpus is not None]


def environments(resources: Sequence[PolicyResource]) -> list[PlannedFleet]:
    """The compute environments of a stack that AWS Batch manages and whose size is known."""
    fleets = []
    for resource in (r for r in resources if r.resource_type == COMPUTE_ENVIRONMENT):
        fleet = of_environment(resource.urn, plain(resource.props))
        if fleet.cpus is not None and fleet.market:
            # A machine of Fargate has no type, and so no price in the table.
            fargate = str(look(resource.props, "computeResources", "type")).startswith("FARGATE")
            fleets.append(replace(fleet, types=("FARGATE",)) if fargate else fleet)
    return fleets


def _fleet(
    resources: Sequence[PolicyResource], urn: str, group: PolicyResource | None, autoscaler: Any
) -> PlannedFleet:
    template = template_of(resources, group) if group else None
    props = plain(template.props) if template else None
    fleet = of_group(urn, plain(group.props) if group else {}, props, autoscaler)
    return replace(fleet, market=fleet.market or "on_demand")
