"""A subscription never expires: by default Pub/Sub deletes it and its messages after 31 days without a subscriber.

Source: https://cloud.google.com/pubsub/docs/subscription-properties#expiration_period
"""

from .common.kinds import SUBSCRIPTION
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("Subscriptions never expire.", HIGH, SUBSCRIPTION)
def violations(args: Resource) -> Violations:
    policy = look(args.props, "expirationPolicy")
    ttl = look(policy, "ttl")
    if ttl is UNKNOWN or ttl == "":
        return
    shown = ttl or "not set (31 days)"
    yield f'expirationPolicy.ttl is {shown}: unused for so long, it is deleted. Set it to "" (never).'
