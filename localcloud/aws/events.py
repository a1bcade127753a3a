"""Events of AWS on their way through EventBridge: to SNS topics, which moto's rules do not know as targets, and to SQS
queues, whose policies moto does not read."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from moto.events.models import Rule, events_backends
from moto.events.utils import EventTemplateParser
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from localcloud.aws import accounts
from localcloud.aws.accounts import ACCOUNT
from localcloud.aws.iam import DIRECT, Query, refusal
from localcloud.aws.mended.method import method

_SNS = ":sns:"
_to_queue = Rule._send_to_sqs_queue


def send(kind: str, detail: dict[str, Any], resources: list[str], region: str) -> None:
    """Put an event of Batch on the default bus.

    Its envelope: https://docs.aws.amazon.com/batch/latest/userguide/batch_cwe_events.html
    """
    now = datetime.now(UTC)
    event: Any = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": kind,
        "source": "aws.batch",
        "account": ACCOUNT,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": region,
        "resources": resources,
        "detail": detail,
    }
    with accounts.moto.lock:
        for rule in list(events_backends[ACCOUNT][region].event_buses["default"].rules.values()):
            if rule.state == "ENABLED" and rule.event_pattern.matches_event(event):
                _deliver(rule, event, region)


def _deliver(rule: Rule, event: dict[str, Any], region: str) -> None:
    for target in rule.targets:
        topic = sns_backends[ACCOUNT][region].topics.get(target["Arn"]) if _SNS in target["Arn"] else None
        if topic is None or not _may("sns:Publish", topic.arn, topic.policy):
            continue  # EventBridge gives such an event up: the rule's metric FailedInvocations counts it
        transformer = target.get("InputTransformer", {})
        paths: dict[str, Any] = transformer.get("InputPathsMap", {})
        known: Any = event | {"ingestion-time": event["time"]}
        text = EventTemplateParser.parse(transformer.get("InputTemplate"), paths, known)
        topic.publish(text if isinstance(text, str) else json.dumps(text))


@method(Rule, "_send_to_sqs_queue")
def _send_to_queue(rule: Any, resource_id: str, event: dict[str, Any], group_id: str | None = None) -> None:
    """Send to a queue whose policy lets EventBridge, for this rule.

    Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sqs-permissions
    """
    queue = sqs_backends[rule.account_id][rule.region_name].queues.get(resource_id)
    about = {"aws:sourcearn": rule.arn, "aws:sourceaccount": ACCOUNT}
    if queue is not None and _may("sqs:SendMessage", queue.queue_arn, queue.policy, about):
        _to_queue(rule, resource_id, _as_s3(event), group_id)


def _as_s3(event: dict[str, Any]) -> dict[str, Any]:
    """An event with the names of S3, where moto has another.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
    """
    if "object" not in (detail := event.get("detail", {})):
        return event
    renamed = {key.replace("eTag", "etag"): value for key, value in detail["object"].items()}
    return {**event, "detail": {**detail, "object": renamed}}


def _may(action: str, arn: str, policy: str | None, context: dict[str, str] | None = None) -> bool:
    """Whether a resource's policy lets EventBridge do something. To SNS it names neither rule nor account.

    Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sns-permissions
    """
    query = Query(action, arn, {"Service:events.amazonaws.com": DIRECT}, context or {})
    return refusal(query, [], json.loads(policy or '{"Statement": []}'), resource_decides=True) is None
