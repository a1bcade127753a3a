"""Every machine type of an instance group has a known price, so that the cap on money counts no dearer one."""

from .common.caps import unpriced
from .common.fleets import groups
from .common.kinds import AUTOSCALERS, GROUPS
from .common.rule import ADVISORY, LOW, Stack, StackViolations, stack_rule
from .common.settings import settings


@stack_rule("The price of every machine type is known.", LOW, *AUTOSCALERS, *GROUPS, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    yield from unpriced("gcp", settings().region("gcp"), groups(args.resources))
