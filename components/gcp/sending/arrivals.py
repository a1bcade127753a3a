"""Files that arrive: notifications of buckets, and the subscriptions in which they wait for the sender."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from ...base import as_args, token
from ..member import Member, grant

KEPT_SECONDS = 31 * 24 * 3600
"""The maximum: how long the sender may be away before files that have arrived are not sent."""
LEASE_SECONDS = 600
"""The maximum: a sender that is killed in between has its messages delivered again after this time."""


@dataclass
class GcpArrivalsArgs:
    """Arguments of `GcpArrivals`."""

    prefixes: dict[str, str]
    """Where files arrive, as ``gs://bucket/prefix``, by the name of the arrivals."""
    kms_key: pulumi.Input[str] | None = None
    """Full name of a Cloud KMS key for the notifications, which admits Pub/Sub; None for Google's own."""
    purge: bool = False
    """Lift the protection of topics and subscriptions: files that were told of and not sent are never sent."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpArrivals(pulumi.ComponentResource):
    """Tells of new objects in buckets that need not belong to the stack.

    Makes: for each name a topic (protected), the right of Cloud Storage of the bucket's project to publish there, a
    notification of the bucket (new objects below the prefix, their names and generations alone), and a subscription
    that keeps notifications for 31 days (protected). Whoever makes it needs `storage.buckets.get` and
    `storage.buckets.update` on the buckets.

    Costs while idle: nothing; Pub/Sub's first 10 GB per month are free, and a notification counts as 1 kB.

    Example:
        ```python
        arrivals = GcpArrivals("vision-dev-arrivals", GcpArrivalsArgs(prefixes={"tiles": "gs://incoming/tiles/"}))
        pulumi.export("tiles", arrivals.subscriptions["tiles"])
        ```
    """

    subscriptions: dict[str, pulumi.Output[str]]
    """Full names of the subscriptions, by the name of the arrivals."""

    def __init__(self, name: str, args: GcpArrivalsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpArrivalsArgs, args)
        super().__init__(token(GcpArrivals), name, None, opts)
        self._args = args
        self._made = {key: self._subscription(key, prefix) for key, prefix in args.prefixes.items()}
        self.subscriptions = {key: made.id for key, made in self._made.items()}
        self.register_outputs({"subscriptions": self.subscriptions})

    def _subscription(self, key: str, prefix: str) -> gcp.pubsub.Subscription:
        name, labels = f"{self.pulumi_resource_name}-{key}", self._args.labels
        kept = pulumi.ResourceOptions(parent=self, protect=not self._args.purge)
        topic = gcp.pubsub.Topic(f"{name}-topic", kms_key_name=self._args.kms_key, labels=labels, opts=kept)
        made = gcp.pubsub.Subscription(
            f"{name}-work",
            topic=topic.id,
            ack_deadline_seconds=LEASE_SECONDS,
            message_retention_duration=f"{KEPT_SECONDS}s",
            # Never: by default Pub/Sub deletes a subscription after 31 unused days.
            expiration_policy=gcp.pubsub.SubscriptionExpirationPolicyArgs(ttl=""),
            labels=labels,
            opts=kept,
        )
        bucket, _, start = prefix.removeprefix("gs://").partition("/")
        publisher = self._let_publish(key, topic, bucket)
        gcp.storage.Notification(
            f"{name}-new",
            bucket=bucket,
            topic=topic.id,
            payload_format="NONE",
            event_types=["OBJECT_FINALIZE"],
            object_name_prefix=start or None,
            # What arrives before the subscription is there is told to nobody.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[publisher, made]),
        )
        return made

    def _let_publish(self, key: str, topic: gcp.pubsub.Topic, bucket: str) -> gcp.pubsub.TopicIAMMember:
        """Let the service agent of Cloud Storage publish: that of the bucket's project, which may be another one.

        Source: https://cloud.google.com/storage/docs/reporting-changes#before-you-begin
        """
        found = gcp.storage.get_bucket_output(name=bucket, opts=pulumi.InvokeOptions(parent=self))
        number = found.project_number.apply(str)
        agent = pulumi.Output.concat("serviceAccount:service-", number, "@gs-project-accounts.iam.gserviceaccount.com")
        member, role = Member("storage", agent), "roles/pubsub.publisher"
        return grant(self, gcp.pubsub.TopicIAMMember, f"{key}-tell", member, role, topic=topic.name)

    def grant_take(self, member: Member) -> None:
        """Let a member pull and acknowledge the notifications."""
        for key, made in self._made.items():
            kind, role = gcp.pubsub.SubscriptionIAMMember, "roles/pubsub.subscriber"
            grant(self, kind, f"{key}-take", member, role, subscription=made.name)
