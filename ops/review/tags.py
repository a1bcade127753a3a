"""Tags and labels that resources lose or that change: a line for each key, not for each resource."""

from collections.abc import Iterator
from typing import Any

from ops.required_tags import OURS, Required
from ops.review.document import Step
from ops.review.models import Finding, Severity
from ops.review.values import is_unknown, objects
from tidemill.figures import counted

_TAGS = ("tags", "tagsAll", "labels", "effectiveLabels")
# A channel's labels are its address.
_OF_USERS = ("gcp:monitoring/alertPolicy:AlertPolicy", "gcp:monitoring/notificationChannel:NotificationChannel")
_MADE = ("instance", "volume")
"""Kinds that a launch template makes and that are billed."""
_SHOWN = 3
"""Names of resources in a finding; a change of a tag is one of almost all of a stack's."""
_ADDED = {"goog-pulumi-provisioned"}
"""Added by the provider itself."""


def findings(steps: list[Step], required: Required) -> Iterator[Finding]:
    """Findings of the kind `tags`.

    Args:
        required: The tags that the policies of the stack's environment require.
    """
    lost: dict[str, set[str]] = {}
    changed: dict[str, set[str]] = {}
    values: dict[str, set[str]] = {}
    words: dict[str, str] = {}
    for step in steps:
        if step.op not in ("update", "replace") or not step.new_state:
            continue
        old, new = _places(step.type, step.old), _places(step.type, step.new)
        for place in old.keys() & new.keys():
            for key, value in old[place].items():
                words.setdefault(key, "label" if step.type.startswith("gcp:") else "tag")
                if key not in new[place]:
                    lost.setdefault(key, set()).add(step.name)
                # A name is its resource's own.
                elif key != "Name" and _differ(value, now := new[place][key]):
                    changed.setdefault(key, set()).add(step.name)
                    values.setdefault(key, set()).add(f"{value} becomes {now}")
    for key, names in sorted(lost.items()):
        verb = "loses" if len(names) == 1 else "lose"
        yield _finding(key, f"{counted(len(names), 'resource')} {verb} the {words[key]} {key}", names, required)
    for key, names in sorted(changed.items()):
        verb, pairs = "changes" if len(names) == 1 else "change", sorted(values[key])
        title = f"{counted(len(names), 'resource')} {verb} the {words[key]} {key}"
        told = f"{title}: {pairs[0]}" if len(pairs) == 1 else title
        yield _finding(key, told, names, required, pairs if len(pairs) > 1 else [])


def _finding(key: str, title: str, names: set[str], required: Required, pairs: list[str] | None = None) -> Finding:
    severity: Severity = "medium"
    why = "Bills and rules of your organization may read it."
    if key in required.named:
        severity, why = "high", "The policies of this environment demand it."
    if key.startswith(OURS):
        severity, why = "high", "CI's permissions, policies and commands find a stack's resources by it."
    listed = sorted(names)
    more = f" and {len(listed) - _SHOWN} more, listed under the changes" if len(listed) > _SHOWN else ""
    return Finding(severity, "tags", "", "", title, (why, *(pairs or []), ", ".join(listed[:_SHOWN]) + more))


def _places(kind: str, inputs: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tags of a resource, and those of what it will make. What is not known yet has no place."""
    keys = ("userLabels",) if kind in _OF_USERS else _TAGS
    held = [inputs.get(key) for key in keys]
    places = {}
    if not any(is_unknown(each) for each in held):
        places[""] = {key: value for each in held if isinstance(each, dict) for key, value in each.items()}
    for each in objects(inputs.get("tagSpecifications")):
        if each.get("resourceType") in _MADE and isinstance(each.get("tags"), dict):
            places[str(each["resourceType"])] = each["tags"]
    for number, disk in enumerate(objects(inputs.get("disks"))):
        if isinstance(disk.get("labels"), dict):
            places[f"disk {number}"] = disk["labels"]
    return {place: {key: value for key, value in tags.items() if key not in _ADDED} for place, tags in places.items()}


def _differ(old: Any, new: Any) -> bool:
    return old != new and not is_unknown(old) and not is_unknown(new)
