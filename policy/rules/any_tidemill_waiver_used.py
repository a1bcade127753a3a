"""Every waiver in force waives something: an unneeded one must go before it hides a new violation.

Rules that the pack's config disables do not run, so a waiver of one is reported too. This rule runs last:
pulumi-policy runs stack rules in the pack's order, after all resources.
"""

from .common import waivers
from .common.companions import STACK, urn_of_stack
from .common.rule import ADVISORY, KINDS, LOW, Stack, StackViolations, stack_rule
from .common.settings import settings


@stack_rule("Every waiver is needed.", LOW, STACK, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    for waiver in waivers.read(settings())[0]:
        if waiver.rule in KINDS and waiver.in_force(waivers.today()) and waiver not in waivers.used:
            yield f"{waiver} waives nothing: there is no violation. Remove it.", urn_of_stack(args.resources)
