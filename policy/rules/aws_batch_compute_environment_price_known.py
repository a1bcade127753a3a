"""Every machine type of the compute environments has a known price, so that the cap on money counts no dearer one."""

from .common.caps import unpriced
from .common.fleets import environments
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import ADVISORY, LOW, Stack, StackViolations, stack_rule
from .common.settings import settings


@stack_rule("The price of every machine type is known.", LOW, COMPUTE_ENVIRONMENT, level=ADVISORY)
def violations(args: Stack) -> StackViolations:
    yield from unpriced("aws", settings().region("aws"), environments(args.resources))
