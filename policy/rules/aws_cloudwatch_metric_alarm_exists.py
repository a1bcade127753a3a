"""A stack that can start machines has an alarm that tells people.

Source: https://docs.aws.amazon.com/wellarchitected/latest/framework/ops_workload_observability_create_alerts.html
"""

from .common.companions import machines_without
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import ADVISORY, LOW, Stack, StackViolations, stack_rule

ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"


@stack_rule("A stack that can start machines has an alarm.", LOW, ALARM, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    message = (
        "the stack can start machines and has no alarm with actions: no one is told when items fail or a "
        "queue is blocked. Set tidemill:monitoring {notify: [...]} or {topic: ...}."
    )
    yield from machines_without(message, args.resources, (COMPUTE_ENVIRONMENT,), ALARM, ("alarmActions",))
