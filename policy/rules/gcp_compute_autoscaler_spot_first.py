"""Only autoscalers of Spot machines are on; an On-Demand group waits until Spot has run dry."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.fleets import group_of, is_spot, template_of
from .common.kinds import AUTOSCALERS
from .common.rule import MEDIUM, stack_rule
from .common.values import UNKNOWN, look


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    for autoscaler in (r for r in args.resources if r.resource_type in AUTOSCALERS):
        mode = look(autoscaler.props, "autoscalingPolicy", "mode")
        group = group_of(args.resources, autoscaler)
        template = template_of(args.resources, group) if group else None
        if mode is not UNKNOWN and mode != "OFF" and template and is_spot(template) is False:
            yield (
                (
                    f"it starts On-Demand machines of {template.name} as soon as there is work. Set the template's "
                    "scheduling.provisioningModel to SPOT; in a Tidemill stack put a rung of market: spot first."
                ),
                autoscaler.urn,
            )


POLICY = stack_rule(
    __name__,
    *AUTOSCALERS,
    violations=violations,
    description="Jobs start Spot machines first.",
    severity=MEDIUM,
)
