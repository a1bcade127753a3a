"""A function runs its image's program with its role, and EventBridge calls it and fills queues, as far as roles and
policies let them. What this cannot prove: what Lambda and EventBridge themselves answer, and how long they take."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.cloud import Cloud
from ops.project import ROOT
from tests.engine.inventory import client
from tests.localcloud.waiting import until

REGION, ACCOUNT = "us-west-2", "123456789012"
BUCKET = "files"
PROGRAM = """
import os, sys
import boto3
from tidemill.sender.lambda_runtime import serve

def answer(event):
    print(event["word"])
    if event.get("exit"):
        sys.exit(3)
    boto3.client("s3").put_object(Bucket="files", Key=f"{event['word']}/{event['time']}", Body=b"")
    return {"said": event["word"]}

serve(os.environ["AWS_LAMBDA_RUNTIME_API"], answer)
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with Cloud(tmp_path_factory.mktemp("cloud")) as running:
        s3 = client(running.env, "s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"EventBridgeConfiguration": {}}
        )
        yield running


def role(cloud: Cloud, service: str, actions: list[str], resource: str) -> str:
    """A role that a service assumes, with one permission."""
    name, iam = f"r{uuid.uuid4().hex[:8]}", client(cloud.env, "iam")
    trust = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": "sts:AssumeRole"}
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(trust))["Role"]["Arn"]
    granted = {"Effect": "Allow", "Action": actions, "Resource": resource}
    iam.put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=document(granted))
    return arn


def document(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class Deployed:
    """A function, its log group, and roles that may call it and may not."""

    def __init__(self, cloud: Cloud, word: str) -> None:
        self.cloud, self.name, self.word = cloud, f"f{uuid.uuid4().hex[:8]}", word
        self._lambda = client(cloud.env, "lambda")
        client(cloud.env, "logs").create_log_group(logGroupName=self.name)
        wanted = ["s3:PutObject", "logs:CreateLogStream", "logs:PutLogEvents"]
        self.given: dict[str, Any] = {
            "FunctionName": self.name,
            "Role": role(cloud, "lambda", wanted, "*"),
            "PackageType": "Image",
            "Code": {"ImageUri": self._image()},
            "ImageConfig": {"EntryPoint": [sys.executable, "-c", PROGRAM]},
            "Environment": {"Variables": {"PYTHONPATH": str(ROOT)}},
            "LoggingConfig": {"LogGroup": self.name},
            "Timeout": 60,
        }
        self.arn = self._lambda.create_function(**self.given)["FunctionArn"]

    def _image(self) -> str:
        ecr = client(self.cloud.env, "ecr")
        made = ecr.create_repository(repositoryName=f"{self.name}/worker")["repository"]["repositoryUri"]
        pulled = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
        statement = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": pulled}
        ecr.set_repository_policy(repositoryName=f"{self.name}/worker", policyText=document(statement))
        return f"{made}@sha256:{'0' * 64}"

    def schedule(self, expression: str, *, actions: list[str], zone: str = "UTC") -> str:
        """A schedule that calls it with a role that may do some actions on it."""
        target = {
            "Arn": self.arn,
            "RoleArn": role(self.cloud, "scheduler", actions, self.arn),
            "Input": json.dumps({"word": self.word, "time": "<aws.scheduler.scheduled-time>"}),
        }
        name = f"{self.name}-{uuid.uuid4().hex[:8]}"
        client(self.cloud.env, "scheduler").create_schedule(
            Name=name, ScheduleExpression=expression, ScheduleExpressionTimezone=zone,
            FlexibleTimeWindow={"Mode": "OFF"}, Target=target,
        )  # fmt: skip
        return name

    def written(self) -> list[str]:
        """The times at which it was called, as it wrote them into the bucket."""
        found = client(self.cloud.env, "s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{self.word}/")
        return [each["Key"].partition("/")[2] for each in found.get("Contents", [])]

    def lines(self) -> list[str]:
        found = client(self.cloud.env, "logs").filter_log_events(logGroupName=self.name)["events"]
        return [each["message"] for each in found]

    def call(self, **event: Any) -> tuple[bool, Any]:
        answer = self._lambda.invoke(FunctionName=self.name, Payload=json.dumps({"word": self.word, **event}))
        return "FunctionError" not in answer, json.loads(answer["Payload"].read())


def test_a_schedule_calls_a_function_at_its_time_with_the_functions_role(cloud):
    made = Deployed(cloud, "nightly")
    day = (datetime.now(UTC) + timedelta(days=20)).date()
    due = datetime(day.year, day.month, day.day, 2, tzinfo=UTC)
    cron = f"cron(0 2 {due.day} {due.month} ? *)"
    called = made.schedule(cron, actions=["lambda:InvokeFunction"])
    refused = made.schedule(cron, actions=["lambda:GetFunction"])
    fired = cloud.control("schedules/turn", to=(due - timedelta(minutes=1)).isoformat())["fired"]
    assert not {called, refused} & {*fired}
    fired = cloud.control("schedules/turn", to=(due + timedelta(minutes=1)).isoformat())["fired"]
    assert (called in fired, refused in fired) == (True, False)
    assert until(made.written) == [due.strftime("%Y-%m-%dT%H:%M:%SZ")]
    assert until(made.lines)[0] == "nightly"


def test_a_function_that_fails_answers_so_and_goes_on(cloud):
    made = Deployed(cloud, "failing")
    ok, answer = made.call()  # it looks for a time
    assert (ok, answer["errorType"]) == (False, "KeyError")
    assert made.call(exit=True) == (False, {"errorMessage": "Runtime exited"})
    assert made.call(time="t") == (True, {"said": "failing"})


def test_a_role_that_lambda_may_not_assume_and_an_image_that_it_may_not_pull_are_refused(cloud):
    made, functions = Deployed(cloud, "refused"), client(cloud.env, "lambda")
    other = {**made.given, "FunctionName": "other"}
    with pytest.raises(ClientError, match="cannot be assumed by Lambda"):
        functions.create_function(**{**other, "Role": role(cloud, "ec2", ["s3:PutObject"], "*")})
    client(cloud.env, "ecr").delete_repository_policy(repositoryName=f"{made.name}/worker")
    with pytest.raises(ClientError, match="does not have permission to access the ECR image"):
        functions.create_function(**other)


def test_objects_reach_a_queue_whose_policy_lets_their_rule(cloud):
    sqs, events = client(cloud.env, "sqs"), client(cloud.env, "events")
    about = {"bucket": {"name": [BUCKET]}, "object": {"key": [{"prefix": "in/"}]}}
    pattern = json.dumps({"source": ["aws.s3"], "detail-type": ["Object Created"], "detail": about})
    rule = events.put_rule(Name="arrivals", EventPattern=pattern)["RuleArn"]
    queues = [sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("open", "closed", "anothers")]
    arns = [f"arn:aws:sqs:{REGION}:{ACCOUNT}:{url.rpartition('/')[2]}" for url in queues]
    events.put_targets(Rule="arrivals", Targets=[{"Id": arn[-4:], "Arn": arn} for arn in arns])
    for url, arn, source in ((queues[0], arns[0], rule), (queues[2], arns[2], f"{rule}-of-another")):
        statement = {
            "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
            "Resource": arn, "Condition": {"ArnEquals": {"aws:SourceArn": source}},
        }  # fmt: skip
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": document(statement)})
    for key in ("in/a", "out/b"):
        client(cloud.env, "s3").put_object(Bucket=BUCKET, Key=key, Body=b"1")
    seen = [sqs.receive_message(QueueUrl=url).get("Messages", []) for url in queues]
    assert [len(each) for each in seen] == [1, 0, 0]
    detail = json.loads(seen[0][0]["Body"])["detail"]
    assert (detail["bucket"]["name"], detail["object"]["key"]) == (BUCKET, "in/a")
    assert detail["object"]["etag"] == "c4ca4238a0b923820dcc509a6f75849b"
