"""The archive of a stack's log: what lands in the bucket is read by what reads JSON lines.

What this cannot prove: Athena itself, and how many documents Firehose puts into one object.
"""

import gzip
import json
import subprocess
import time
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from components.aws.logs import AwsLogs, AwsLogsArgs
from localcloud.aws.mended import firehose
from tests.components.recording import run

GROUP, LINES = "/tidemill/vision-dev", 10_000


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    return archived_objects(monkeypatch)


def archived_objects(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Objects that 10,000 lines become, with the settings that the component plans."""
    monkeypatch.setattr(firehose.FirehoseBackend, "put_s3_records", firehose._put)
    with mock_aws():
        session = boto3.Session("id", "key", region_name="us-west-2")
        streams, logs = (session.client(name) for name in ("firehose", "logs"))
        # localcloud's environment, which other tests of this process may have set, lets moto read paths only.
        s3 = session.client("s3", config=Config(s3={"addressing_style": "path"}))
        s3.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        arn = streams.create_delivery_stream(
            DeliveryStreamName="archive", ExtendedS3DestinationConfiguration=planned()
        )["DeliveryStreamARN"]
        logs.create_log_group(logGroupName=GROUP)
        logs.create_log_stream(logGroupName=GROUP, logStreamName="a")
        role = "arn:aws:iam::123456789012:role/put"
        logs.put_subscription_filter(
            logGroupName=GROUP, filterName="all", filterPattern="", destinationArn=arn, roleArn=role
        )
        at = int(time.time() * 1000)
        for first in range(0, LINES, 500):
            events = [{"timestamp": at, "message": message(number)} for number in range(first, first + 500)]
            logs.put_log_events(logGroupName=GROUP, logStreamName="a", logEvents=events)
        keys = [each["Key"] for each in s3.list_objects_v2(Bucket="store")["Contents"]]
        return {key: s3.get_object(Bucket="store", Key=key)["Body"].read() for key in keys}


def planned() -> dict[str, Any]:
    """The component's settings as the API takes them."""
    bucket = "arn:aws:s3:::store"
    made = run(lambda: AwsLogs("l", AwsLogsArgs(archive_bucket_arn=bucket)))
    settings = made.one("kinesis.FirehoseDeliveryStream").inputs["extendedS3Configuration"]
    role = "arn:aws:iam::123456789012:role/r"
    return {"RoleARN": role, "BucketARN": bucket} | {
        key[0].upper() + key[1:]: capital(settings[key])
        for key in ("prefix", "compressionFormat", "fileExtension", "processingConfiguration")
    }


def capital(value: Any) -> Any:
    if isinstance(value, dict):
        return {key[0].upper() + key[1:]: capital(each) for key, each in value.items()}
    return [capital(each) for each in value] if isinstance(value, list) else value


def message(number: int) -> str:
    return json.dumps({"job": "tiles", "item": number, "message": "two\nlines é \u2028"}, ensure_ascii=number % 2 == 0)


def test_a_json_lines_reader_finds_every_line(objects: dict[str, bytes]) -> None:
    items = []
    for key, data in objects.items():
        assert key.startswith("logs/20")
        assert key.endswith(".json.gz")
        for line in gzip.decompress(data).split(b"\n")[:-1]:
            document = json.loads(line)
            assert document["logGroup"] == GROUP
            items += [json.loads(event["message"])["item"] for event in document["logEvents"]]
    assert sorted(items) == list(range(LINES))


def test_zcat_reads_several_objects_at_once(objects: dict[str, bytes]) -> None:
    done = subprocess.run(["zcat"], input=b"".join(objects.values()), capture_output=True, timeout=60, check=True)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(len(document["logEvents"]) for document in documents) == LINES
