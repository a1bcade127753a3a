"""Requests to AWS Batch and CloudWatch Logs, checked against botocore's models. It cannot prove how AWS acts."""

import json
import time
from dataclasses import replace
from email.utils import formatdate
from types import SimpleNamespace

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.stub import ANY, Stubber

from tests.unit.client_fakes import ARN, descriptor, queue
from tidemill.clouds.account import LogSearch
from tidemill.clouds.aws import account as aws_account
from tidemill.clouds.aws import logs as aws_logs
from tidemill.clouds.aws.account import AwsAccount
from tidemill.descriptor import AwsQueue, Resources
from tidemill.errors import CallerError, CloudError
from tidemill.services.backend import Array, ArrayAddress, ArrayState, Shape
from tidemill.services.batch.backend import AwsBatch, submit_request

JOB = "tiles-0a1b2c3d"


class Stubbed:
    """A backend whose clients answer only what a test has queued, in order."""

    def __init__(self, monkeypatch) -> None:
        session = boto3.Session("id", "key", region_name="us-west-2")
        self.stubs: dict[str, Stubber] = {}

        def client(service, region, session):
            if service not in self.stubs:
                self.stubs[service] = Stubber(session.client(service, region_name=region))
                self.stubs[service].activate()
            return self.stubs[service].client

        for module in (aws_account, aws_logs):
            monkeypatch.setattr(module, "client", client)
        self.backend = AwsBatch(descriptor(), AwsAccount(descriptor(), session))
        for service in ("sts", "logs"):
            client(service, "us-west-2", session)

    def done(self) -> None:
        for stub in self.stubs.values():
            stub.assert_no_pending_responses()


@pytest.fixture
def stubbed(monkeypatch):
    stubbed = Stubbed(monkeypatch)
    yield stubbed
    stubbed.done()


def shape(**changes) -> Shape:
    values = {
        "queue": queue(),
        "image": "default",
        "resources": Resources(cpus=2, memory_mib=1000, gpus=0),
        "slots": 1,
        "user": "ada",
        "tags": {"tidemill:team": "vision", "tidemill:job": JOB},
    }
    return Shape(**(values | changes))


def array(size: int, k: int = 0) -> Array:
    return Array(f"{JOB}-r0-a{k}", range(size), ArrayAddress(JOB, 0, k, "a" * 64, "b" * 64))


def request(size: int, needs: list[dict[str, str]], k: int = 0) -> dict:
    container = {
        "resourceRequirements": needs,
        "environment": [
            {"name": "TIDEMILL_JOB", "value": JOB},
            {"name": "TIDEMILL_ROUND", "value": "0"},
            {"name": "TIDEMILL_ARRAY", "value": str(k)},
            {"name": "TIDEMILL_JOB_SHA256", "value": "a" * 64},
            {"name": "TIDEMILL_ROUND_SHA256", "value": "b" * 64},
        ],
    }
    plain = {
        "jobName": f"{JOB}-r0-a{k}",
        "jobQueue": f"{ARN}:job-queue/cpu",
        "jobDefinition": f"{ARN}:job-definition/cpu-default:1",
        "shareIdentifier": "ada",
        "containerOverrides": container,
        "parameters": {"job": JOB},
        "tags": {"tidemill:team": "vision", "tidemill:job": JOB},
        "propagateTags": True,
    }
    return plain | ({"arrayProperties": {"size": size}} if size > 1 else {})


TWO_CPUS = [{"type": "VCPU", "value": "2"}, {"type": "MEMORY", "value": "1000"}]


def test_an_array_job_and_a_plain_job(stubbed):
    for k, size in enumerate((10_000, 1)):
        answer = {"jobName": f"{JOB}-r0-a{k}", "jobId": "1"}
        stubbed.stubs["batch"].add_response("submit_job", answer, request(size, TWO_CPUS, k))
    stubbed.backend.enqueue(shape(), [array(10_000), array(1, 1)])


def test_a_container_gets_its_slots_times_the_resources():
    made = submit_request(shape(slots=4, resources=Resources(cpus=1, memory_mib=500, gpus=1)), array(2))
    container = made["containerOverrides"]
    assert container["resourceRequirements"] == [
        {"type": "VCPU", "value": "4"},
        {"type": "MEMORY", "value": "2000"},
        {"type": "GPU", "value": "4"},
    ]


def test_a_request_that_batch_would_refuse_for_its_size_is_not_sent(stubbed):
    large = replace(array(2), name="x" * 31_000)
    with pytest.raises(CallerError, match="AWS Batch accepts 30720"):
        stubbed.backend.enqueue(shape(), [array(2), large])


def test_submits_are_paced_below_fifty_a_second(stubbed, patch_time):
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    patch_time(monotonic=lambda: now[0], sleep=sleep)
    for k in range(5):
        stubbed.stubs["batch"].add_response("submit_job", {"jobName": "n", "jobId": "1"}, request(2, TWO_CPUS, k))
    stubbed.backend.enqueue(shape(), [array(2, k) for k in range(5)])
    assert slept == pytest.approx([1 / 40] * 4)


@pytest.mark.parametrize(
    ("arn", "user"),
    [
        ("arn:aws:sts::123456789012:assumed-role/Dev/ada.lovelace@example.com", "adalovelaceexamplecom"),
        ("arn:aws:iam::123456789012:user/team/ada", "ada"),
        ("arn:aws:iam::123456789012:root", "root"),
        ("arn:aws:iam::123456789012:user/___", "unknown"),
    ],
)
def test_the_share_identifier_is_the_user_in_letters_and_digits(stubbed, arn, user):
    answer = {"Arn": arn, "UserId": "1" * 16, "Account": "123456789012"}
    stubbed.stubs["sts"].add_response("get_caller_identity", answer, {})
    assert stubbed.backend.account.user() == user


def summary(number: int) -> dict:
    return {"jobId": f"id-{number}", "jobName": f"{JOB}-r0-a{number}"}


def detail(number: int, status: str, **changes) -> dict:
    plain = {
        "jobId": f"id-{number}",
        "jobName": f"{JOB}-r0-a{number}",
        "jobQueue": "q",
        "status": status,
        "startedAt": 0,
        "jobDefinition": "d",
        "createdAt": 1000 * number,
    }
    return plain | changes


def test_arrays_are_found_by_name_through_pages_and_described_100_at_a_time(stubbed):
    batch = stubbed.stubs["batch"]
    filters = [{"name": "JOB_NAME", "values": [f"{JOB}-r*"]}]
    asked = {"jobQueue": f"{ARN}:job-queue/cpu", "filters": filters}
    first = {"jobSummaryList": [summary(n) for n in range(100)], "nextToken": "more"}
    batch.add_response("list_jobs", first, asked)
    batch.add_response("list_jobs", {"jobSummaryList": [summary(100)]}, asked | {"nextToken": "more"})
    counts = {"RUNNABLE": 2, "STARTING": 1, "RUNNING": 3, "SUCCEEDED": 4, "FAILED": 0, "PENDING": 1}
    parents = [detail(n, "PENDING", arrayProperties={"size": 11, "statusSummary": counts}) for n in range(99, -1, -1)]
    batch.add_response("describe_jobs", {"jobs": parents}, {"jobs": [f"id-{n}" for n in range(100)]})
    batch.add_response("describe_jobs", {"jobs": [detail(100, "FAILED", statusReason="why")]}, {"jobs": ["id-100"]})
    states = stubbed.backend.describe(queue(), JOB)
    assert [state.id for state in states] == [f"id-{n}" for n in range(101)]
    assert states[0].states == {"waiting": 3, "starting": 1, "running": 3, "succeeded": 4}
    assert (states[0].ended, states[0].size) == (False, 11)
    assert states[100] == ArrayState(f"{JOB}-r0-a100", "id-100", 1, {"failed": 1}, True, 100.0, "why")


def test_failed_children_are_listed_with_their_reasons(stubbed):
    asked = {"arrayJobId": "id-0", "jobStatus": "FAILED"}
    children = [{"jobId": f"id-0:{n}", "jobName": "n", "statusReason": f"r{n}"} for n in (7, 12)]
    stubbed.stubs["batch"].add_response("list_jobs", {"jobSummaryList": children[:1], "nextToken": "t"}, asked)
    stubbed.stubs["batch"].add_response("list_jobs", {"jobSummaryList": children[1:]}, asked | {"nextToken": "t"})
    state = ArrayState("n", "id-0", 20, {"failed": 2}, False)
    assert stubbed.backend.failed_children(state) == {7: "r7", 12: "r12"}


def test_the_reason_of_a_container_that_did_not_start_is_told(stubbed):
    status, why = "Task failed to start", "CannotStartContainerError: no namespaces"
    child = {"jobId": "id-0:3", "jobName": "n", "statusReason": status, "container": {"reason": why}}
    stubbed.stubs["batch"].add_response(
        "list_jobs", {"jobSummaryList": [child]}, {"arrayJobId": "id-0", "jobStatus": "FAILED"}
    )
    array = ArrayState("n", "id-0", 20, {"failed": 1}, False)
    assert stubbed.backend.failed_children(array) == {3: f"{status}: {why}"}
    attempts = [{"container": {"reason": "an older one"}}, {"container": {"reason": why}}]
    job = detail(100, "FAILED", statusReason=status, attempts=attempts)
    stubbed.stubs["batch"].add_response("list_jobs", {"jobSummaryList": [{"jobId": "id-100", "jobName": "n"}]})
    stubbed.stubs["batch"].add_response("describe_jobs", {"jobs": [job]})
    (state,) = stubbed.backend.describe(queue(), JOB)
    assert stubbed.backend.failed_children(state) == {0: f"{status}: {why}"}


def test_an_array_without_failures_is_not_asked_about(stubbed):
    assert stubbed.backend.failed_children(ArrayState("n", "id-0", 20, {"running": 20}, False)) == {}
    assert stubbed.backend.failed_children(ArrayState("n", "id-0", 1, {"failed": 1}, True, reason="why")) == {0: "why"}


def test_cancel_ends_parents_that_have_not_ended(stubbed):
    states = [ArrayState("a", "id-0", 2, {}, True), ArrayState("b", "id-1", 2, {}, False)]
    stubbed.stubs["batch"].add_response("terminate_job", {}, {"jobId": "id-1", "reason": "cancelled: why"})
    assert stubbed.backend.cancel(states, "why") == 1


def test_logs_of_a_child_are_those_of_all_its_attempts(stubbed):
    job = detail(
        0,
        "RUNNING",
        attempts=[{"container": {"logStreamName": "cpu/item/1"}}],
        container={"logStreamName": "cpu/item/2"},
    )
    stubbed.stubs["batch"].add_response("describe_jobs", {"jobs": [job]}, {"jobs": ["id-0:7"]})
    asked = {"logGroupName": "/tidemill/vision-dev", "logStreamNames": ["cpu/item/1", "cpu/item/2"], "startTime": 0}
    events = [
        {"timestamp": 1500, "message": json.dumps({"item": 3}), "logStreamName": "cpu/item/1"},
        {"timestamp": 2000, "message": "no JSON", "logStreamName": "cpu/item/2"},
    ]
    stubbed.stubs["logs"].add_response("filter_log_events", {"events": events}, asked)
    lines = list(stubbed.backend.child_logs(ArrayState("n", "id-0", 20, {}, False), 7, LogSearch(JOB)))
    assert [(line.at, line.fields) for line in lines] == [(1.5, {"item": 3}), (2.0, {})]


def test_a_forgotten_child_has_no_logs(stubbed):
    stubbed.stubs["batch"].add_response("describe_jobs", {"jobs": []}, {"jobs": ["id-0"]})
    assert list(stubbed.backend.child_logs(ArrayState("n", "id-0", 1, {}, True), 0, LogSearch(JOB))) == []


def test_logs_are_searched_by_their_json_fields(stubbed):
    asked = {
        "logGroupName": "/tidemill/vision-dev",
        "filterPattern": '{ ($.job = "tiles-0a1b2c3d") && ($.item = 3) }',
        "startTime": 5000,
    }
    events = [{"timestamp": 6000, "message": json.dumps({"job": JOB, "item": n})} for n in (3, 4)]
    stubbed.stubs["logs"].add_response("filter_log_events", {"events": events}, asked)
    found = stubbed.backend.account.logs(LogSearch(JOB, frozenset([3]), 5.0))
    assert [line.fields["item"] for line in found] == [3]


@pytest.mark.parametrize(
    ("text", "term"),
    [("no such band", ' && ($.message = "*no such band*")'), ('say "no"', ""), ("back\\slash", ""), ("fünf", "")],
)
def test_logs_are_searched_by_text_where_the_pattern_can_say_it(stubbed, text, term):
    asked = {
        "logGroupName": "/tidemill/vision-dev",
        "filterPattern": '{ ($.job = "tiles-0a1b2c3d")' + term + " }",
        "startTime": 5000,
        "endTime": 9000,
    }
    event = {"timestamp": 6000, "message": json.dumps({"job": JOB}), "eventId": "e-1"}
    stubbed.stubs["logs"].add_response("filter_log_events", {"events": [event]}, asked)
    found = stubbed.backend.account.logs(LogSearch(JOB, None, 5.0, 9.0, text))
    assert [line.id for line in found] == ["e-1"]


def test_a_log_group_without_streams_is_empty(stubbed):
    stubbed.stubs["logs"].add_client_error("filter_log_events", "ResourceNotFoundException")
    assert list(stubbed.backend.account.logs(LogSearch(JOB))) == []


@pytest.mark.parametrize(
    ("state", "status", "accepting", "running", "detail"),
    [
        ("ENABLED", "VALID", True, True, "enabled, valid"),
        ("ENABLED", "UPDATING", True, True, "enabled, updating"),
        ("DISABLED", "VALID", False, True, "disabled, valid"),
        ("ENABLED", "INVALID", True, False, "enabled, invalid: why"),
        ("ENABLED", "DELETING", False, False, "enabled, deleting: why"),
    ],
)
def test_queue_states(stubbed, *, state, status, accepting, running, detail):
    found = {
        "jobQueueName": "cpu",
        "jobQueueArn": f"{ARN}:job-queue/cpu",
        "state": state,
        "status": status,
        "statusReason": "why",
        "priority": 1,
        "computeEnvironmentOrder": [],
    }
    answer = {"jobQueues": [found]}
    stubbed.stubs["batch"].add_response("describe_job_queues", answer, {"jobQueues": ANY})
    gone = queue(aws=AwsQueue(job_queue=f"{ARN}:job-queue/gone"))
    states = stubbed.backend.queue_states({"cpu": queue(), "gone": gone})
    assert (states["cpu"].accepting, states["cpu"].running, states["cpu"].detail) == (accepting, running, detail)
    assert states["gone"].accepting is False


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDeniedException", "batch:SubmitJob is denied (no). Ask the stack's owner"),
        ("ExpiredTokenException", "the AWS login is not valid (no). Log in"),
        ("ClientException", "batch:SubmitJob was refused: ClientException: no"),
    ],
)
def test_refusals_are_told_in_one_line(stubbed, code, words):
    stubbed.stubs["batch"].add_client_error("submit_job", code, "no")
    with pytest.raises(CloudError) as error:
        stubbed.backend.enqueue(shape(), [array(2)])
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NoCredentialsError(), "no AWS login"),
        (EndpointConnectionError(endpoint_url="https://batch"), "AWS could not be asked"),
    ],
)
def test_no_login_and_no_network(stubbed, monkeypatch, error, words):
    def fail(**request):
        raise error

    monkeypatch.setattr(stubbed.backend._batch, "submit_job", fail)
    with pytest.raises(CloudError, match=words):
        stubbed.backend.enqueue(shape(), [array(2)])


def test_without_boto3_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(CallerError, match=r"pip install 'tidemill\[aws\]'"):
        AwsBatch(descriptor(), AwsAccount(descriptor()))


def test_an_unknown_profile_is_the_callers_mistake(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CallerError, match="nobody"):
        AwsBatch(descriptor(), AwsAccount(descriptor()))


@pytest.mark.parametrize(("status", "told"), [(200, True), (403, True), (200, False)])
def test_the_clock_is_that_of_the_last_answer_and_the_first_one_is_asked_for(status, told):
    """A laptop is an hour ahead. A retry reads nothing but the store, and its round has the time of that look."""
    session, asked = boto3.Session("id", "key", region_name="us-west-2"), []
    then = time.time() - 3600

    def answer(model, **_):
        asked.append(model.name)
        headers = {"Date": formatdate(then, usegmt=True)} if told else {}
        said = {"jobQueues": [], "Error": {"Code": "AccessDenied"}}
        return SimpleNamespace(status_code=status, headers=headers), said

    session.events.register("before-call.batch", answer)
    backend = AwsBatch(descriptor(), AwsAccount(descriptor(), session))
    for _ in range(2):
        assert abs(backend.account.now() - (then if told else time.time())) < 60
    assert abs(backend.account.at().timestamp() - backend.account.now()) < 60
    assert asked == ["DescribeJobQueues"]
