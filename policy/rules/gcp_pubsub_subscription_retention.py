"""A subscription keeps messages for 31 days; older ones are lost without a trace.

Source: https://cloud.google.com/pubsub/docs/subscription-properties#message_retention_duration
"""

import re

from .common.kinds import SUBSCRIPTION
from .common.rule import HIGH, Resource, Violations, parameter, resource_rule
from .common.values import UNKNOWN, look

_DAY_SECONDS = 24 * 3600
PARAMETERS = {
    "days": {
        "type": "integer",
        "minimum": 1,
        "maximum": 31,
        "default": 31,
        "description": "How many days a message must be kept; Pub/Sub allows at most 31.",
    }
}


@resource_rule("Subscriptions keep messages for 31 days.", HIGH, SUBSCRIPTION, parameters=PARAMETERS)
def violations(args: Resource) -> Violations:
    kept, days = look(args.props, "messageRetentionDuration"), parameter(args, "days")
    if kept is UNKNOWN:
        return
    match = re.fullmatch(r"(\d+)(\.\d+)?s", kept or "604800s")
    if not match or int(match[1]) < days * _DAY_SECONDS:
        yield (
            f"messageRetentionDuration is {kept or 'not set (7 days)'}: work that waits longer is lost. "
            f"Set it to {days * _DAY_SECONDS}s ({days} days)."
        )
