"""Few machines stay without work: each is billed around the clock.

Source: https://cloud.google.com/compute/docs/autoscaler (minNumReplicas)
"""

from .common.caps import whole
from .common.kinds import AUTOSCALERS
from .common.rule import MEDIUM, Stack, StackViolations, parameter, stack_rule
from .common.values import look

_WARM = {
    "maxMachines": {
        "type": "integer",
        "minimum": 0,
        "default": 10,
        "description": "Machines that all groups of the stack together may keep without work.",
    }
}


@stack_rule("Machines that stay without work are capped.", MEDIUM, *AUTOSCALERS, parameters=_WARM)
def violations(args: Stack) -> StackViolations:
    scalers = [resource for resource in args.resources if resource.resource_type in AUTOSCALERS]
    warm = {one.urn: whole(look(one.props, "autoscalingPolicy", "minReplicas")) or 0 for one in scalers}
    total, most = sum(warm.values()), parameter(args, "maxMachines")
    if total > most:
        urn = max(warm, key=lambda key: warm[key])
        yield (
            (
                f"the stack keeps {total} machines without work, this group {warm[urn]}; maxMachines is {most}, and "
                "each is billed around the clock. Lower gcp.min_machines of the queues, or have the policy pack's "
                "config raised."
            ),
            urn,
        )
