"""A queue's messages: topic, subscription, and the pair for dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from ...base import child_name
from ...gcp.member import Member, grant
from ...gcp.project import Project

KEPT_SECONDS = 31 * 24 * 3600
"""The longest that Pub/Sub keeps a message after its publishing; it silently drops older ones.
Source: https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions (messageRetentionDuration)"""
DELIVERIES = 100
"""The maximum of Pub/Sub; each reclaim counts. The ledger detects chunks that kill workers.
Source: https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions#DeadLetterPolicy"""
LEASE_SECONDS = 120
"""A worker extends its lease by ten minutes as soon as it has a message, and for as long as the work takes. A message
that a pull takes whose worker has just left comes back after this time."""
DEAD_LEASE_SECONDS = 600
"""The maximum: readers of dead letters hold them without extending."""
_NEVER = ""
"""Never expire: by default Pub/Sub deletes a subscription after 31 unused days."""


@dataclass
class ImportedTopic:
    """An existing topic and its subscription, by their full names."""

    topic: str
    subscription: str


@dataclass
class Messages:
    """The topics and subscriptions of a queue's messages."""

    topic: gcp.pubsub.Topic
    subscription: gcp.pubsub.Subscription
    dead_letters: gcp.pubsub.Subscription
    ready: list[pulumi.Resource]
    """Resources that must exist before the first delivery: grants for Pub/Sub's own service agent."""


def messages(
    name: str,
    parent: pulumi.Resource,
    project: Project,
    labels: Mapping[str, pulumi.Input[str]] | None,
    *,
    purge: bool,
    imported: ImportedTopic | None = None,
    key: pulumi.Input[str] | None = None,
) -> Messages:
    """A topic with its subscription, both new or imported, and a second pair for dead letters.

    All four are protected unless `purge` is set, because their messages are lost with them.
    """
    kept = pulumi.ResourceOptions(parent=parent, protect=not purge)
    existing = imported.topic if imported else None
    topic = gcp.pubsub.Topic(
        child_name(f"{name}-topic", _short(existing)),
        name=_short(existing),
        kms_key_name=None if existing else key,
        labels=labels,
        opts=_taken_over(kept, existing),
    )
    dead = gcp.pubsub.Topic(f"{name}-dead", kms_key_name=key, labels=labels, opts=kept)
    dead_letters = _subscription(f"{name}-dead", dead, None, labels, kept)
    policy = gcp.pubsub.SubscriptionDeadLetterPolicyArgs(dead_letter_topic=dead.id, max_delivery_attempts=DELIVERIES)
    existing = imported.subscription if imported else None
    subscription = _subscription(f"{name}-work", topic, policy, labels, kept, existing=existing)
    agent = Member("pubsub", project.agent("gcp-sa-pubsub"))
    # Source: https://cloud.google.com/pubsub/docs/handling-failures#grant_forwarding_permissions
    ready = [
        on_topic(parent, "dead", dead, agent, "publisher"),
        on_subscription(parent, "work", subscription, agent, "subscriber"),
    ]
    return Messages(topic, subscription, dead_letters, ready)


def _subscription(
    name: str,
    topic: gcp.pubsub.Topic,
    dead: gcp.pubsub.SubscriptionDeadLetterPolicyArgs | None,
    labels: Mapping[str, pulumi.Input[str]] | None,
    opts: pulumi.ResourceOptions,
    *,
    existing: str | None = None,
) -> gcp.pubsub.Subscription:
    # A drained worker's messages soon go to another worker. A dead letter that a reader gives back must be
    # available to the next reader at once, which it is without a policy.
    # Source: https://cloud.google.com/pubsub/docs/handling-failures#exponential_backoff
    pause = gcp.pubsub.SubscriptionRetryPolicyArgs(minimum_backoff="10s", maximum_backoff="60s")
    return gcp.pubsub.Subscription(
        child_name(name, _short(existing)),
        name=_short(existing),
        topic=topic.id,
        ack_deadline_seconds=LEASE_SECONDS if dead else DEAD_LEASE_SECONDS,
        message_retention_duration=f"{KEPT_SECONDS}s",
        expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=_NEVER),
        dead_letter_policy=dead,
        retry_policy=pause if dead else None,
        labels=labels,
        opts=_taken_over(opts, existing),
    )


def _taken_over(opts: pulumi.ResourceOptions, existing: str | None) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(import_=existing))


def _short(full: str | None) -> str | None:
    return full.rpartition("/")[2] if full else None


def on_topic(
    parent: pulumi.Resource, what: str, topic: gcp.pubsub.Topic, member: Member, role: str
) -> gcp.pubsub.TopicIAMMember:
    """A role of Pub/Sub on one topic."""
    return grant(parent, gcp.pubsub.TopicIAMMember, what, member, f"roles/pubsub.{role}", topic=topic.name)


def on_subscription(
    parent: pulumi.Resource, what: str, subscription: gcp.pubsub.Subscription, member: Member, role: str
) -> gcp.pubsub.SubscriptionIAMMember:
    """A role of Pub/Sub on one subscription."""
    on = {"subscription": subscription.name}
    return grant(parent, gcp.pubsub.SubscriptionIAMMember, what, member, f"roles/pubsub.{role}", **on)
