"""Every waiver of the stack is complete, names an existing rule and has not ended.

An ended waiver waives nothing, and stays an error until it is removed or renewed.
"""

from .common import waivers
from .common.companions import STACK, urn_of_stack
from .common.rule import HIGH, KINDS, Stack, StackViolations, stack_rule
from .common.settings import settings


@stack_rule("Every waiver is in force and names an existing rule.", HIGH, STACK)
def violations(args: Stack) -> StackViolations:
    urn = urn_of_stack(args.resources)
    given, wrong = waivers.read(settings())
    for message in wrong:
        yield message, urn
    for waiver in given:
        if waiver.rule not in KINDS or waiver.rule.startswith(waivers.UNWAIVABLE):
            yield f"{waiver}: there is no such rule. docs/policies.md lists the rules.", urn
        elif not waiver.in_force(waivers.today()):
            message = f"{waiver} has ended. Remove it and fix the violation, or set a later day with a reason."
            yield message, urn
