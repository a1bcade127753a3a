"""A stack that can start machines has a budget with notices.

Source: https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Stack, StackViolations, stack_rule

BUDGET = "aws:budgets/budget:Budget"


@stack_rule("A stack that can start machines has a budget.", MEDIUM, BUDGET)
def violations(args: Stack) -> StackViolations:
    fleets = [r for r in args.resources if r.resource_type == COMPUTE_ENVIRONMENT]
    if fleets and not any(r.resource_type == BUDGET for r in args.resources):
        yield (
            (
                "the stack can start machines and has no budget: no one is notified when they cost too much. Set "
                "tidemill:budget {monthly_usd: ..., notify: [...]}, or add an aws.budgets.Budget."
            ),
            min(r.urn for r in fleets),
        )
