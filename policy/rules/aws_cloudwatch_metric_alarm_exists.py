"""A stack that can start machines has an alarm that tells people.

Source: https://docs.aws.amazon.com/wellarchitected/latest/framework/ops_workload_observability_create_alerts.html
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import ADVISORY, LOW, Stack, StackViolations, stack_rule

ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"


@stack_rule("A stack that can start machines has an alarm.", LOW, ALARM, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    fleets = [r for r in args.resources if r.resource_type == COMPUTE_ENVIRONMENT]
    if fleets and not any(r.resource_type == ALARM for r in args.resources):
        yield (
            (
                "the stack can start machines and has no alarm: no one is told when items fail or a queue is blocked. "
                "Set tidemill:monitoring {notify: [...]} or {topic: ...}."
            ),
            min(r.urn for r in fleets),
        )
