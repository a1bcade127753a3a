"""Every machine type of an instance group has a known price, so that the cap on money counts it."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.caps import unpriced
from .common.fleets import fleets
from .common.kinds import AUTOSCALERS
from .common.rule import ADVISORY, LOW, stack_rule
from .common.settings import settings


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    yield from unpriced("gcp", settings().region("gcp"), list(fleets(args.resources)))


POLICY = stack_rule(
    __name__,
    *AUTOSCALERS,
    violations=violations,
    description="The price of every machine type is known.",
    severity=LOW,
    level=ADVISORY,
)
