"""Events of AWS on their way through EventBridge to SNS topics, which moto's rules do not know as targets."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

from moto.events.models import Rule, events_backends
from moto.events.utils import EventTemplateParser
from moto.sns.models import sns_backends

from localcloud.aws import accounts
from localcloud.aws.accounts import ACCOUNT
from localcloud.aws.iam import DIRECT, Query, refusal

_SNS = ":sns:"


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
        if topic is None or not _may_publish(topic):
            continue  # EventBridge gives such an event up: the rule's metric FailedInvocations counts it
        transformer = target.get("InputTransformer", {})
        paths: dict[str, Any] = transformer.get("InputPathsMap", {})
        known: Any = event | {"ingestion-time": event["time"]}
        text = EventTemplateParser.parse(transformer.get("InputTemplate"), paths, known)
        topic.publish(text if isinstance(text, str) else json.dumps(text))


def _may_publish(topic: Any) -> bool:
    """Whether the topic's policy lets EventBridge publish. It names neither rule nor account to SNS.

    Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sns-permissions
    """
    query = Query("sns:Publish", topic.arn, {"Service:events.amazonaws.com": DIRECT})
    return refusal(query, [], json.loads(topic.policy), resource_decides=True) is None
