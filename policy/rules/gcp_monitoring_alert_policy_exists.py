"""A stack that can start machines has an alert policy that tells people.

Source: https://cloud.google.com/monitoring/alerts
"""

from .common.kinds import GROUPS
from .common.rule import ADVISORY, LOW, Stack, StackViolations, stack_rule

ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"


@stack_rule("A stack that can start machines has an alert policy.", LOW, ALERT, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    groups = [r for r in args.resources if r.resource_type in GROUPS]
    if groups and not any(r.resource_type == ALERT for r in args.resources):
        yield (
            (
                "the stack can start machines and has no alert policy: no one is told when items fail or no machine "
                "comes. Set tidemill:monitoring {notify: [...]} or {channels: [...]}."
            ),
            min(r.urn for r in groups),
        )
