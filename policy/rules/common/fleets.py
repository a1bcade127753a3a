"""Compute Engine instance groups as fleets: autoscaler, if there is one, group and template together."""

from collections.abc import Iterator, Sequence
from typing import Any

from pulumi_policy import PolicyResource

from .caps import Fleet, gce_cpus
from .kinds import AUTOSCALERS, GROUPS, TEMPLATES
from .values import flag, items, look, whole


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
    """The group that an autoscaler sizes."""
    return named_by(resources, autoscaler, "target", look(autoscaler.props, "target"), GROUPS)


def template_of(resources: Sequence[PolicyResource], group: PolicyResource) -> PolicyResource | None:
    """The template of a group's machines."""
    named = look(group.props, "versions", 0, "instanceTemplate")
    return named_by(resources, group, "versions", named, TEMPLATES)


def is_spot(template: PolicyResource) -> bool | None:
    """Whether a template's machines are Spot; None if unknown."""
    model, preemptible = (flag(look(template.props, "scheduling", key)) for key in ("provisioningModel", "preemptible"))
    if isinstance(model, str):
        return model == "SPOT"
    return preemptible is True if model is None and preemptible in (None, True, False) else None


def types_of(group: PolicyResource, template: PolicyResource | None) -> tuple[str, ...]:
    """The machine types that a group may start."""
    selections = items(look(group.props, "instanceFlexibilityPolicy", "instanceSelections"))
    named = [kind for one in selections for kind in items(look(one, "machineTypes"))]
    named = named or [look(template.props, "machineType") if template else None]
    return tuple(kind for kind in named if isinstance(kind, str))


def sizes(resources: Sequence[PolicyResource]) -> Iterator[tuple[PolicyResource, PolicyResource | None, Any, Any]]:
    """What sizes a group, the group, and its fewest and most machines: an autoscaler, or the group itself."""
    scaled: list[PolicyResource | None] = []
    for autoscaler in (r for r in resources if r.resource_type in AUTOSCALERS):
        scaled.append(group_of(resources, autoscaler))
        policy = look(autoscaler.props, "autoscalingPolicy")
        yield autoscaler, scaled[-1], look(policy, "minReplicas"), look(policy, "maxReplicas")
    for group in (r for r in resources if r.resource_type in GROUPS and r not in scaled):
        size = look(group.props, "targetSize")
        yield group, group, size, size


def fleets(resources: Sequence[PolicyResource]) -> Iterator[Fleet]:
    """Every group of a stack whose size is known; the URN is that of what sizes it."""
    for sizing, group, _, largest in sizes(resources):
        most = whole(largest)
        if group is None or most is None:
            continue
        template = template_of(resources, group)
        types = types_of(group, template)
        cpus = [size for size in map(gce_cpus, types) if size]
        if cpus:
            spot = bool(template and is_spot(template))
            yield Fleet(sizing.urn, most * max(cpus), types, spot, most, _attached(template))


def _attached(template: PolicyResource | None) -> int:
    """GPUs that a template attaches to each machine."""
    counts = [whole(look(one, "count")) for one in items(look(template.props, "guestAccelerators"))] if template else []
    return sum(count or 0 for count in counts)
