"""Few machines stay without work: each is billed around the clock.

Source: https://cloud.google.com/compute/docs/autoscaler (minNumReplicas)
"""

from .common.fleets import planned
from .common.kinds import AUTOSCALERS, GROUPS
from .common.rule import MEDIUM, Stack, StackViolations, parameter, stack_rule

_WARM = {
    "maxMachines": {
        "type": "integer",
        "minimum": 0,
        "default": 10,
        "description": "Machines that all groups of the stack together may keep without work.",
    }
}


@stack_rule("Machines that stay without work are capped.", MEDIUM, *AUTOSCALERS, *GROUPS, parameters=_WARM)
def violations(args: Stack) -> StackViolations:
    warm = {fleet.urn: fleet.staying for fleet in planned(args.resources)}
    total, most = sum(warm.values()), parameter(args, "maxMachines")
    if total > most:
        urn = max(warm, key=lambda key: warm[key])
        message = (
            f"the stack keeps {total} machines without work, this group {warm[urn]}; maxMachines is {most}, and "
            "each is billed around the clock. Lower gcp.min_machines of the queues, or have the policy pack's "
            "config raised."
        )
        yield message, urn
