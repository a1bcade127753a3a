"""A stack that can start machines has a budget with notices.

Source: https://cloud.google.com/billing/docs/how-to/budgets
"""

from .common.kinds import GROUPS
from .common.rule import MEDIUM, Stack, StackViolations, stack_rule

BUDGET = "gcp:billing/budget:Budget"


@stack_rule("A stack that can start machines has a budget.", MEDIUM, BUDGET)
def violations(args: Stack) -> StackViolations:
    groups = [r for r in args.resources if r.resource_type in GROUPS]
    if groups and not any(r.resource_type == BUDGET for r in args.resources):
        yield (
            (
                "the stack can start machines and has no budget: no one is notified when they cost too much. Set "
                "tidemill:budget {monthly_usd: ..., notify: [...]}, or add a gcp.billing.Budget."
            ),
            min(r.urn for r in groups),
        )
