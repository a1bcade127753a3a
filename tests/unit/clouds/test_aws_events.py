"""Events of a bucket in SQS, as moto's SQS keeps them. What this cannot prove: what EventBridge writes."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tidemill.clouds.aws.events import AwsEvents
from tidemill.clouds.events import ArrivedObject
from tidemill.errors import CloudError


def event(key: str, kind: str = "Object Created") -> str:
    detail = {"bucket": {"name": "incoming"}, "object": {"key": key, "etag": "e1", "size": 1}}
    return json.dumps({"detail-type": kind, "time": "2026-11-23T01:00:00Z", "detail": detail})


def test_events_are_taken_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        sqs: Any = boto3.client("sqs", region_name="us-west-2")
        url = sqs.create_queue(QueueName="arrivals")["QueueUrl"]
        bodies = [event("a b/ü+.jpg"), event("gone.jpg", "Object Deleted"), "no JSON", "[]", json.dumps({})]
        for body in bodies:
            sqs.send_message(QueueUrl=url, MessageBody=body)
        events, taken = AwsEvents(sqs, url), list[ArrivedObject]()
        while (batch := events.take()).receipts:
            taken += batch.objects
            events.forget(batch)
        assert taken == [ArrivedObject("s3://incoming/a b/ü+.jpg", "e1", 1795395600.0)]
        left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert left["ApproximateNumberOfMessagesNotVisible"] == left["ApproximateNumberOfMessages"] == "0"
        sqs.delete_queue(QueueUrl=url)
        with pytest.raises(CloudError, match="sqs:ReceiveMessage"):
            events.take()
