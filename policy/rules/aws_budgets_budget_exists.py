"""A stack that can start machines has a budget with notices.

Source: https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html
"""

from .common.companions import machines_without
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Stack, StackViolations, stack_rule

BUDGET = "aws:budgets/budget:Budget"


@stack_rule("A stack that can start machines has a budget.", MEDIUM, BUDGET)
def violations(args: Stack) -> StackViolations:
    message = (
        "the stack can start machines and has no budget with notices: no one is told when they cost too "
        "much. Set tidemill:budget {monthly_usd: ..., notify: [...]}, or add an aws.budgets.Budget."
    )
    yield from machines_without(message, args.resources, (COMPUTE_ENVIRONMENT,), BUDGET, ("notifications",))
