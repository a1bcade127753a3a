"""Objects that have arrived in a bucket of S3: EventBridge's events of it in a queue of SQS.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html
"""

from __future__ import annotations

import json
import shlex
from datetime import datetime
from typing import Any

from tidemill.clouds.aws.session import client, default_session, translated
from tidemill.clouds.events import ArrivedObject, EventBatch
from tidemill.clouds.findings import Finding
from tidemill.descriptor import Arrival, Descriptor
from tidemill.errors import CloudError

MOST = 10
"""Messages of one call.
Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html"""
EMPTY_CALLS = 2
"""A call asks some of the queue's hosts, so an empty answer may be wrong."""


class AwsEvents:
    """A queue by its URL."""

    def __init__(self, sqs: Any, url: str) -> None:
        self._sqs, self._url = sqs, url

    def take(self) -> EventBatch:
        """See `ArrivalEvents.take`."""
        for _ in range(EMPTY_CALLS):
            with translated("sqs:ReceiveMessage"):
                answer = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=MOST)
            if messages := answer.get("Messages"):
                found = [_object(message["Body"]) for message in messages]
                return EventBatch([each for each in found if each], [each["ReceiptHandle"] for each in messages])
        return EventBatch([], [])

    def forget(self, batch: EventBatch) -> None:
        """See `ArrivalEvents.forget`."""
        for first in range(0, len(batch.receipts), MOST):
            some = enumerate(batch.receipts[first : first + MOST])
            entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in some]
            with translated("sqs:DeleteMessage"):
                answer = self._sqs.delete_message_batch(QueueUrl=self._url, Entries=entries)
            if failed := answer.get("Failed"):
                raise CloudError(f"sqs:DeleteMessage was refused: {failed[0].get('Code', '')}.", code=failed[0]["Code"])


def _object(body: str) -> ArrivedObject | None:
    """The object of an event; None if the event tells of none that is new."""
    try:
        event = json.loads(body)
        if event["detail-type"] != "Object Created":
            return None
        detail = event["detail"]
        uri = f"s3://{detail['bucket']['name']}/{detail['object']['key']}"
        return ArrivedObject(uri, detail["object"]["etag"], datetime.fromisoformat(event["time"]).timestamp())
    except (KeyError, TypeError, ValueError):
        return None


def open_events(descriptor: Descriptor, queue: str) -> AwsEvents:
    return AwsEvents(client("sqs", descriptor.region, default_session()), queue)


def check_bucket(descriptor: Descriptor, check: str, arrival: Arrival) -> Finding:
    """Check that a bucket sends its events to EventBridge. The command keeps what else its notifications have.

    Raises:
        CloudError: S3 does not tell.
    """
    bucket = arrival.prefix.removeprefix("s3://").partition("/")[0]
    s3, document = client("s3", descriptor.region, default_session()), dict[str, Any]()
    with translated("s3:GetBucketNotification"):
        document = s3.get_bucket_notification_configuration(Bucket=bucket)
    document.pop("ResponseMetadata", None)
    if "EventBridgeConfiguration" in document:
        return Finding(check, "ok", f"{bucket} sends its events to EventBridge")
    whole = shlex.quote(json.dumps({**document, "EventBridgeConfiguration": {}}))
    command = f"aws s3api put-bucket-notification-configuration --bucket {bucket} --notification-configuration {whole}"
    detail = f"{bucket} sends no events to EventBridge, so no file arrives. Its owner switches them on"
    return Finding(check, "fault", detail, command, owner=True)
