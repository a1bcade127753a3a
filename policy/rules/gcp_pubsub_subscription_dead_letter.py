"""Every subscription has a dead-letter topic with a subscription.

Without the topic, a message that kills its worker comes back for 31 days. Without a subscription on it, dead letters
are lost at once. Notifications of a bucket are no work: they name objects, and the objects stay.
Source: https://cloud.google.com/pubsub/docs/dead-letter-topics
"""

from collections.abc import Sequence

from pulumi_policy import PolicyResource

from .common.fleets import named_by
from .common.kinds import NOTIFICATION, SUBSCRIPTION, TOPIC
from .common.rule import HIGH, Stack, StackViolations, stack_rule
from .common.values import UNKNOWN, look


@stack_rule("Every subscription has a dead-letter topic with a subscription.", HIGH, SUBSCRIPTION)
def violations(args: Stack) -> StackViolations:
    resources = args.resources
    told = [topic for r in resources if r.resource_type == NOTIFICATION and (topic := _topic(resources, r))]
    subscriptions = [r for r in resources if r.resource_type == SUBSCRIPTION]
    read = [topic for s in subscriptions if (topic := _topic(resources, s))]
    dead = {s.urn: _dead(resources, s) for s in subscriptions}
    for subscription in subscriptions:
        policy = look(subscription.props, "deadLetterPolicy")
        named, topic = look(policy, "deadLetterTopic"), dead[subscription.urn]
        if policy is UNKNOWN or (named is UNKNOWN and topic is None):
            continue
        if topic is None and not named and _topic(resources, subscription) not in [*dead.values(), *told]:
            message = (
                "it has no deadLetterPolicy: a message that kills its worker comes back until it expires. Name a "
                "dead-letter topic, and make a subscription for that topic."
            )
            yield message, subscription.urn
        if topic is not None and topic not in read:
            message = (
                f"its dead-letter topic {topic.name} has no subscription: dead letters are lost at once. Create a "
                "subscription for that topic."
            )
            yield message, subscription.urn


def _topic(resources: Sequence[PolicyResource], reader: PolicyResource) -> PolicyResource | None:
    return named_by(resources, reader, "topic", look(reader.props, "topic"), [TOPIC])


def _dead(resources: Sequence[PolicyResource], subscription: PolicyResource) -> PolicyResource | None:
    named = look(subscription.props, "deadLetterPolicy", "deadLetterTopic")
    return named_by(resources, subscription, "deadLetterPolicy", named, [TOPIC])
