"""Values that a group and its template may not have: those Google refuses, and those not emulated here."""

from __future__ import annotations

from localcloud.gcp.compute.managed import Json


def left_out(fields: Json) -> str:
    """The group's fields that are not emulated; empty when all are."""
    names = ("autoHealingPolicies", "statefulPolicy", "allInstancesConfig", "targetPools", "targetStoppedSize",
             "targetSuspendedSize", "resourcePolicies")  # fmt: skip
    found = [name for name in names if _says_something(fields.get(name))]
    found += ["several versions"] if len(fields.get("versions", [])) > 1 else []
    modes = {"standbyPolicy": "SCALE_OUT_POOL", "targetSizePolicy": "BULK"}
    return ", ".join([*found, *(name for name, mode in modes.items() if fields.get(name, {}).get("mode") == mode)])


def _says_something(value: object) -> bool:
    """Whether the value asks for anything: a `statefulPolicy` whose parts are empty does not."""
    return any(map(_says_something, value.values())) if isinstance(value, dict) else bool(value)


def wrong_update_policy(fields: Json, zones: int) -> str:
    """Why Google refuses a regional group's update policy; empty when Google accepts it.

    Args:
        fields: The group's fields, as a call gives them. Each omitted limit defaults to one machine per zone.
        zones: Number of the group's zones.
    """
    policy = fields.get("updatePolicy", {})
    given = {name: policy.get(name, {}) for name in ("maxSurge", "maxUnavailable")}
    numbers = {name: int(each["fixed"]) for name, each in given.items() if "fixed" in each}
    for name, number in numbers.items():
        if 0 < number < zones:
            return f"Fixed updatePolicy.{name} has to be either 0 or at least equal to the number of zones."
    if policy.get("replacementMethod") == "RECREATE" and numbers.get("maxSurge", zones):
        return "maxSurge must be equal to 0 when replacement method is set to RECREATE"
    if all(not numbers.get(name, each.get("percent", zones)) for name, each in given.items()):
        return "Either maxSurge or maxUnavailable must be greater than 0."
    return ""


def wrong_scheduling(properties: Json) -> str:
    """Why a group refuses a template's scheduling, by the strictest reading of the sources; empty if it accepts it."""
    scheduling = properties.get("scheduling", {})
    action = scheduling.get("instanceTerminationAction")
    if scheduling.get("maxRunDuration") and action != "DELETE":
        return "maxRunDuration in an instance group needs the instanceTerminationAction DELETE"
    if action and scheduling.get("provisioningModel") != "SPOT" and not scheduling.get("maxRunDuration"):
        return "instanceTerminationAction needs provisioningModel SPOT or a maxRunDuration"
    return ""
