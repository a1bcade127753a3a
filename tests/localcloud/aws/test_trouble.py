"""People are told of trouble: the rules and the topic that `AwsMonitoring` plans, on localcloud's Batch.

What this cannot prove: the shape of a parent's event, whether the event of a blocked queue names a child, and how late
they are (docs/first-account.md).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from components.aws.monitoring.monitoring import AwsMonitoring, AwsMonitoringArgs
from localcloud.aws.accounts import service_client
from localcloud.aws.mended import gaps  # noqa: F401
from tests.components.recording import Recorder, run
from tests.localcloud.aws.batch.account import REGION, Account, account
from tests.localcloud.aws.team import SMALL, Team
from tests.localcloud.waiting import until
from tidemill.client import Job
from tidemill.client.watch.observation import observe


class Oncall:
    """Who is told: a queue of SQS in place of an address."""

    def __init__(self, cloud: Account, queue: str) -> None:
        self._sqs, sns, events = (service_client(name, REGION) for name in ("sqs", "sns", "events"))
        name = f"oncall-{uuid.uuid4().hex}"
        self.url = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        self.topic = sns.create_topic(Name=name)["TopicArn"]
        made = planned(queue)
        policy = made.one("sns.TopicPolicy").inputs["policy"].replace("arn:mock:Topic:v-monitoring-alarms", self.topic)
        sns.set_topic_attributes(TopicArn=self.topic, AttributeName="Policy", AttributeValue=policy)
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=f"arn:aws:sqs:{REGION}:123456789012:{name}")
        for rule in made.of("cloudwatch.EventRule"):
            events.put_rule(Name=rule.name, EventPattern=rule.inputs["eventPattern"])
        for target in made.of("cloudwatch.EventTarget"):
            transformer = target.inputs["inputTransformer"]
            shape = {"InputPathsMap": transformer["inputPaths"], "InputTemplate": transformer["inputTemplate"]}
            wanted = {"Id": target.inputs["targetId"], "Arn": self.topic, "InputTransformer": shape}
            events.put_targets(Rule=target.name.removesuffix("-topic"), Targets=[wanted])

    def messages(self) -> list[str]:
        found = self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return [json.loads(each["Body"])["Message"] for each in found.get("Messages", [])]


def planned(queue: str) -> Recorder:
    args = AwsMonitoringArgs(
        pipeline="v", log_group="l", queues={"cpu": queue}, notify=["a@example.com"], metric_namespace="Tidemill/v"
    )
    return run(lambda: AwsMonitoring("v-monitoring", args))


@pytest.fixture
def team() -> Iterator[Team]:
    with pytest.MonkeyPatch.context() as patch, account(namespaces=False, submit_rate=1000) as cloud:
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{cloud.port}")
        yield Team(cloud)


def test_a_blocked_queue_tells_the_reason_and_the_command(team: Team) -> None:
    queue = team.queue(team.environment(**SMALL))
    oncall = Oncall(team.cloud, queue)
    job = team.submit(queue, "true", cpus=64)
    until(lambda: bool(oncall.messages()))
    [message] = oncall.messages()
    assert f"Queue {queue} is blocked" in message
    assert "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT" in message
    assert job.id in message.partition(" Next: ")[0]


def test_a_healthy_job_and_a_cancelled_one_tell_nothing_and_a_failed_one_does(team: Team) -> None:
    queue = team.queue(team.environment(**SMALL))
    oncall = Oncall(team.cloud, queue)
    healthy, cancelled = team.submit(queue, "true"), team.submit(queue, "sleep", "600")
    ends(team, healthy)
    cancelled.cancel("the wrong list")
    ends(team, cancelled)
    failed = team.submit(queue, "false")
    until(lambda: bool(oncall.messages()))
    [message] = oncall.messages()
    assert failed.id in message.partition(" Next: ")[0]


CONDITIONAL = {
    "Effect": "Allow",
    "Principal": {"Service": "events.amazonaws.com"},
    "Action": "sns:Publish",
    "Resource": "*",
    "Condition": {"StringEquals": {"aws:SourceAccount": "123456789012"}},
}


@pytest.mark.parametrize("allowed", [[], [CONDITIONAL]], ids=["no rule", "rules of an account"])
def test_a_topic_that_admits_eventbridge_not_or_under_a_condition_is_told_nothing(
    team: Team, allowed: list[dict[str, Any]]
) -> None:
    queue = team.queue(team.environment(**SMALL))
    oncall = Oncall(team.cloud, queue)
    policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    sns = service_client("sns", REGION)
    sns.set_topic_attributes(TopicArn=oncall.topic, AttributeName="Policy", AttributeValue=policy)
    failed = team.submit(queue, "false")
    ends(team, failed)
    assert oncall.messages() == []


def ends(team: Team, job: Job) -> None:
    """Until Batch has ended a job."""
    [array] = observe(job._watched.site, job._watched.ledger, job.spec, consumption=False).known
    team.cloud.ended(array.id)
