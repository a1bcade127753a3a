"""The events of files that arrive, kept until the sender takes them."""

import hashlib
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from ...base import as_args, token
from ...outputs import json_of
from ..policy import Statement, allow, document

RETENTION_SECONDS = 14 * 86_400
"""The longest that SQS keeps a message.
Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""
_HIDDEN_SECONDS = 300
"""How long a message that a sender took is hidden from others. A sender stores what it took within seconds."""

_SWITCH = (
    "Nothing arrives until the owner of the bucket {bucket} lets it send notifications to Amazon EventBridge: in the "
    "console under Properties, Event notifications."
)


@dataclass
class AwsArrivalsArgs:
    """Arguments of `AwsArrivals`."""

    pipeline: str
    """Name of the pipeline, which the rule's name begins with."""
    arrivals: str
    """Name of the arrivals in the stack file."""
    prefix: str
    """Where the files arrive: ``s3://bucket`` or ``s3://bucket/prefix``."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsArrivals(pulumi.ComponentResource):
    """The new objects of a bucket or prefix, as messages that wait for the sender.

    A stack does not change the bucket, which may have notifications of others. So its owner lets it send its events to
    EventBridge, once; until then nothing arrives.
    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-event-notifications-eventbridge.html

    Makes: an encrypted SQS queue that keeps messages for 14 days, its policy, and an EventBridge rule with the queue as
    its target. The queue admits this rule alone.

    Costs while idle: nothing. Per million files about $1.40 for the events, the messages and their removal.

    Example:
        ```python
        args = AwsArrivalsArgs(pipeline="vision-dev", arrivals="tiles", prefix="s3://incoming/tiles/")
        arrivals = AwsArrivals("vision-dev-tiles", args)
        pulumi.export("queue", arrivals.queue_url)
        ```
    """

    queue_url: pulumi.Output[str]
    """URL of the queue; known once events may reach it."""
    queue_arn: pulumi.Output[str]
    """ARN of the queue."""

    def __init__(self, name: str, args: AwsArrivalsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsArrivalsArgs, args)
        super().__init__(token(AwsArrivals), name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        bucket, _, prefix = args.prefix.removeprefix("s3://").partition("/")
        pulumi.log.info(_SWITCH.format(bucket=bucket), self)
        rule = aws.cloudwatch.EventRule(
            f"{name}-rule",
            # The names of pipeline and arrivals do not fit together. Nothing replaces a rule.
            name=f"{args.pipeline}-sender-{hashlib.sha256(args.arrivals.encode()).hexdigest()[:8]}",
            description=f"New objects for the arrivals {args.arrivals}",
            event_pattern=json_of(_pattern(bucket, prefix)),
            tags=args.tags,
            opts=child,
        )
        queue = aws.sqs.Queue(
            f"{name}-q",
            message_retention_seconds=RETENTION_SECONDS,
            visibility_timeout_seconds=_HIDDEN_SECONDS,
            sqs_managed_sse_enabled=True,
            tags=args.tags,
            opts=child,
        )
        admitted: Statement = {
            **allow(["sqs:SendMessage"], [queue.arn], {"ArnEquals": {"aws:SourceArn": rule.arn}}),
            "Principal": {"Service": "events.amazonaws.com"},
        }
        policy = aws.sqs.QueuePolicy(f"{name}-policy", queue_url=queue.url, policy=document([admitted]), opts=child)
        target = aws.cloudwatch.EventTarget(
            f"{name}-target", rule=rule.name, target_id="queue", arn=queue.arn, opts=child
        )
        ready = pulumi.Output.all(queue.url, policy.id, target.id)
        self.queue_url, self.queue_arn = ready.apply(lambda all_of: all_of[0]), queue.arn
        self.register_outputs({"queue_url": self.queue_url, "queue_arn": self.queue_arn})


def _pattern(bucket: str, prefix: str) -> dict[str, object]:
    """Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-mapping-troubleshooting.html"""
    about: dict[str, object] = {"bucket": {"name": [bucket]}}
    if prefix:
        about["object"] = {"key": [{"prefix": prefix}]}
    return {"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": about}
