"""Only autoscalers of Spot machines are on; an On-Demand group waits until Spot has run dry."""

from tidemill.planned_fleet import market_of

from .common.fleets import group_of, template_of
from .common.kinds import AUTOSCALERS
from .common.rule import MEDIUM, Stack, StackViolations, stack_rule
from .common.values import UNKNOWN, look, plain


@stack_rule("Jobs start Spot machines first.", MEDIUM, *AUTOSCALERS)
def violations(args: Stack) -> StackViolations:
    for autoscaler in (r for r in args.resources if r.resource_type in AUTOSCALERS):
        mode = look(autoscaler.props, "autoscalingPolicy", "mode")
        group = group_of(args.resources, autoscaler)
        template = template_of(args.resources, group) if group else None
        if mode is not UNKNOWN and mode != "OFF" and template and market_of(plain(template.props)) == "on_demand":
            message = (
                f"it starts On-Demand machines of {template.name} as soon as there is work. Set the template's "
                "scheduling.provisioningModel to SPOT; in a Tidemill stack put a rung of market: spot first."
            )
            yield message, autoscaler.urn
