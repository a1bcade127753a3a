"""Every machine type of the compute environments has a known price, so that the cap on money counts it."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.batch import fleets
from .common.caps import unpriced
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import ADVISORY, LOW, stack_rule
from .common.settings import settings


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    yield from unpriced("aws", settings().region("aws"), fleets(args.resources))


POLICY = stack_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="The price of every machine type is known.",
    severity=LOW,
    level=ADVISORY,
)
