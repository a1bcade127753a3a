"""Every waiver in force waives something: an unneeded one must go before it hides a new violation.

Rules that the pack's config disables do not run, so a waiver of one is reported too. This rule runs last:
pulumi-policy runs stack rules in the pack's order, after all resources.
"""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common import waivers
from .common.rule import ADVISORY, KINDS, LOW, stack_rule
from .common.settings import settings
from .common.stack import urn_of_stack


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    for waiver in waivers.read(settings())[0]:
        if waiver.rule in KINDS and waiver.in_force(waivers.today()) and waiver not in waivers.used:
            yield f"{waiver} waives nothing: there is no violation. Remove it.", urn_of_stack(args.resources)


POLICY = stack_rule(
    __name__,
    "pulumi:pulumi:Stack",
    violations=violations,
    description="Every waiver is needed.",
    severity=LOW,
    level=ADVISORY,
)
