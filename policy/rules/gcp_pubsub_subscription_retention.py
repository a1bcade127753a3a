"""A subscription keeps a message for 31 days: one that was not done by then is lost without a trace.

Source: https://cloud.google.com/pubsub/docs/subscription-properties#message_retention_duration
"""

import re
from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import SUBSCRIPTION
from .common.rule import HIGH, parameter, resource_rule
from .common.values import UNKNOWN, look

_DAY_SECONDS = 24 * 3600
PARAMETERS = {
    "days": {
        "type": "integer",
        "minimum": 1,
        "maximum": 31,
        "default": 31,
        "description": "Days that a message has to be kept; Pub/Sub keeps it for at most 31.",
    }
}


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    """Yield that a subscription forgets too early, with the fix."""
    kept, days = look(args.props, "messageRetentionDuration"), parameter(args, "days")
    if kept is UNKNOWN:
        return
    found = re.fullmatch(r"(\d+)(\.\d+)?s", kept or "604800s")
    if not found or int(found[1]) < days * _DAY_SECONDS:
        yield (
            f"messageRetentionDuration is {kept or 'not set (7 days)'}: work that waits longer is lost. "
            f"Set it to {days * _DAY_SECONDS}s ({days} days)."
        )


POLICY = resource_rule(
    __name__,
    SUBSCRIPTION,
    violations=violations,
    description="Subscriptions keep messages for 31 days.",
    severity=HIGH,
    parameters=PARAMETERS,
)
