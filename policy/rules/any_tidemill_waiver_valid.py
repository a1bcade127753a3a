"""Every waiver of the stack is whole, is of a rule that there is, and has not ended.

One that has ended waives nothing any more, and stays an error until it is removed or renewed.
"""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common import waivers
from .common.rule import HIGH, KINDS, stack_rule
from .common.settings import settings
from .common.stack import urn_of_stack


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the stack's waivers, each with its fix."""
    urn = urn_of_stack(args.resources)
    given, wrong = waivers.read(settings())
    for message in wrong:
        yield message, urn
    for waiver in given:
        if waiver.rule not in KINDS or waiver.rule.startswith(waivers.UNWAIVABLE):
            yield f"{waiver}: there is no such rule to waive. docs/policies.md has the names.", urn
        elif not waiver.in_force(waivers.today()):
            message = f"{waiver} has ended. Remove it and obey the rule, or give a new day and say why it takes longer."
            yield message, urn


POLICY = stack_rule(
    __name__,
    "pulumi:pulumi:Stack",
    violations=violations,
    description="Every waiver is in force and of a rule that there is.",
    severity=HIGH,
)
