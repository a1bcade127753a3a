"""A stack that can start machines has an alert policy that tells people.

Source: https://cloud.google.com/monitoring/alerts
"""

from .common.companions import machines_without
from .common.kinds import GROUPS
from .common.rule import ADVISORY, LOW, Stack, StackViolations, stack_rule

ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"


@stack_rule("A stack that can start machines has an alert policy.", LOW, ALERT, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    message = (
        "the stack can start machines and has no alert policy with channels: no one is told when items fail "
        "or no machine comes. Set tidemill:monitoring {notify: [...]} or {channels: [...]}."
    )
    yield from machines_without(message, args.resources, GROUPS, ALERT, ("notificationChannels",))
