"""A stack that can start machines has a budget with notices.

Source: https://cloud.google.com/billing/docs/how-to/budgets
"""

from .common.companions import machines_without
from .common.kinds import GROUPS
from .common.rule import MEDIUM, Stack, StackViolations, stack_rule

BUDGET = "gcp:billing/budget:Budget"


@stack_rule("A stack that can start machines has a budget.", MEDIUM, BUDGET)
def violations(args: Stack) -> StackViolations:
    message = (
        "the stack can start machines and has no budget with notices: no one is told when they cost too "
        "much. Set tidemill:budget {monthly_usd: ..., notify: [...]}, or add a gcp.billing.Budget."
    )
    yield from machines_without(
        message, args.resources, GROUPS, BUDGET, ("thresholdRules",), ("allUpdatesRule", "pubsubTopic")
    )
