"""Parts of the gateway in this process. This does not prove that AWS gives each service these condition keys."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from localcloud.aws import accounts
from localcloud.aws.actions import protocol_of, read_call
from localcloud.aws.authorize import may
from localcloud.aws.gateway import Gateway
from localcloud.aws.mended import gaps, quotas  # noqa: F401
from localcloud.aws.signature import Scope
from localcloud.aws.wsgi import Environ, StartResponse, serve_socket
from localcloud.faults import DropConnectionError

REGION = "us-west-2"


def create_role(
    name: str, service: str, condition: dict[str, Any] | None = None, policy: dict[str, Any] | None = None
) -> str:
    iam = accounts.service_client("iam", REGION)
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust |= {"Condition": condition} if condition else {}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    arn = iam.create_role(RoleName=name, Path="/team/", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    if policy:
        own = json.dumps({"Version": "2012-10-17", "Statement": policy})
        iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=own)
    return arn


OURS = {"StringEquals": {"aws:SourceAccount": accounts.ACCOUNT}}
THEIRS = {"StringEquals": {"aws:SourceAccount": "999999999999"}}


@pytest.mark.parametrize(
    ("trusted", "condition", "service", "allowed"),
    [
        ("ecs-tasks.amazonaws.com", None, "ecs-tasks.amazonaws.com", True),
        ("ecs-tasks.amazonaws.com", OURS, "ecs-tasks.amazonaws.com", True),
        ("ecs-tasks.amazonaws.com", THEIRS, "ecs-tasks.amazonaws.com", False),
        ("ec2.amazonaws.com", None, "ecs-tasks.amazonaws.com", False),
        ("ec2.amazonaws.com", None, "ec2.amazonaws.com", True),
        ("ec2.amazonaws.com", OURS, "ec2.amazonaws.com", False),
    ],
)
def test_a_service_gets_credentials_of_roles_that_trust_it(
    request: Any, trusted: str, condition: Any, service: str, allowed: bool
):
    arn = create_role(f"trust-{request.node.callspec.indices['trusted']}", trusted, condition)
    if allowed:
        given = accounts.role_credentials(arn, "session", service)
        found = accounts.find_key(given["AccessKeyId"])
        assert found
        assert found.secret == given["SecretAccessKey"]
        assert found.principal.arn.endswith("/session")
        assert found.principal.issuer == arn
        assert set(given) == {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
    else:
        with pytest.raises(accounts.RoleRefusedError, match="not authorized to perform: sts:AssumeRole"):
            accounts.role_credentials(arn, "session", service)


def test_a_role_that_is_not_there_gives_no_credentials():
    with pytest.raises(accounts.RoleRefusedError, match="does not exist"):
        accounts.role_credentials(f"arn:aws:iam::{accounts.ACCOUNT}:role/none", "session")


def test_a_roles_inline_policies_are_limited_together():
    create_role("full", "ec2.amazonaws.com")
    iam = accounts.service_client("iam", REGION)

    def put(name: str, characters: int) -> None:
        statement = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{characters * 'b'}"}
        document = {"Version": "2012-10-17", "Statement": [statement]}
        iam.put_role_policy(RoleName="full", PolicyName=name, PolicyDocument=json.dumps(document, indent=50))

    put("a", 5000)
    put("b", 5000)
    put("b", 4000)
    with pytest.raises(iam.exceptions.LimitExceededException, match="10240 bytes exceeded for role full"):
        put("c", 1000)
    assert iam.list_role_policies(RoleName="full")["PolicyNames"] == ["a", "b"]


def sized(characters: int, **more: Any) -> str:
    """A policy document of so many characters, without white space."""
    statement: dict[str, Any] = {"Effect": "Allow", "Action": "sts:AssumeRole", "Sid": "", **more}
    document = {"Version": "2012-10-17", "Statement": [statement]}
    room = characters - len(json.dumps(document, separators=(",", ":")))
    return json.dumps({**document, "Statement": [{**statement, "Sid": room * "s"}]}, separators=(",", ":"))


def test_policies_of_the_size_that_iam_takes_and_a_character_more():
    iam = accounts.service_client("iam", REGION)
    anything = {"Resource": "*"}
    made = iam.create_policy(PolicyName="most", PolicyDocument=sized(6144, **anything))["Policy"]["Arn"]
    for call, what in (("create_policy", {"PolicyName": "more"}), ("create_policy_version", {"PolicyArn": made})):
        with pytest.raises(iam.exceptions.LimitExceededException, match="PolicySize: 6144"):
            getattr(iam, call)(PolicyDocument=sized(6145, **anything), **what)
    trusted = {"Principal": {"AWS": f"arn:aws:iam::{accounts.ACCOUNT}:root"}}
    iam.create_role(RoleName="most", AssumeRolePolicyDocument=sized(2048, **trusted))
    with pytest.raises(iam.exceptions.LimitExceededException, match="ACLSizePerRole: 2048"):
        iam.create_role(RoleName="more", AssumeRolePolicyDocument=sized(2049, **trusted))
    with pytest.raises(iam.exceptions.LimitExceededException, match="ACLSizePerRole: 2048"):
        iam.update_assume_role_policy(RoleName="most", PolicyDocument=sized(2049, **trusted))


def test_an_event_pattern_and_an_alarm_widget_of_the_size_that_aws_takes_and_one_more():
    events, cloudwatch = (accounts.service_client(name, REGION) for name in ("events", "cloudwatch"))
    start = len(json.dumps({"source": [""]}))
    events.put_rule(Name="most", EventPattern=json.dumps({"source": [(2048 - start) * "s"]}))
    with pytest.raises(events.exceptions.ClientError, match="less than or equal to 2048"):
        events.put_rule(Name="more", EventPattern=json.dumps({"source": [(2049 - start) * "s"]}))

    def put(*numbers: int) -> None:
        widgets = [{"type": "alarm", "properties": {"alarms": number * ["arn"]}} for number in numbers]
        cloudwatch.put_dashboard(DashboardName="d", DashboardBody=json.dumps({"widgets": widgets}))

    put(1, 100)
    for numbers in ((100, 101), (0,)):
        with pytest.raises(cloudwatch.exceptions.ClientError, match="Should NOT have"):
            put(*numbers)


def test_what_aws_does_for_a_role_is_asked_too():
    group = f"arn:aws:logs:{REGION}:{accounts.ACCOUNT}:log-group:/g"
    policy = {"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": f"{group}:*"}
    arn = create_role("execution", "ecs-tasks.amazonaws.com", policy=policy)
    assert may(arn, "logs:PutLogEvents", f"{group}:log-stream:s", REGION)
    assert not may(arn, "logs:CreateLogStream", f"{group}:log-stream:s", REGION)
    assert not may(f"{arn}-of-nobody", "logs:PutLogEvents", f"{group}:log-stream:s", REGION)


def echo(environ: Environ, start_response: StartResponse) -> list[bytes]:
    if environ["PATH_INFO"] == "/drop":
        raise DropConnectionError
    if environ["PATH_INFO"] == "/fail":
        raise RuntimeError("on purpose")
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Method", environ["REQUEST_METHOD"])])
    return [environ["localcloud.body"], environ["wsgi.input"].read()]


def test_tags_of_a_job_decide_who_may_end_it(tmp_path: Path):
    accounts.create_deployer(tmp_path / "credentials.json")
    condition = {"StringEquals": {"aws:ResourceTag/team": "vision"}}
    policy = {"Effect": "Allow", "Action": "batch:TerminateJob", "Resource": "*", "Condition": condition}
    key = accounts.role_credentials(create_role("killer", "x", policy=policy), "session")
    ended: list[str] = []

    def batch(environ: Environ, start_response: StartResponse) -> list[bytes]:
        ended.append(json.loads(environ["localcloud.body"])["jobId"])
        start_response("200 OK", [("Content-Type", "application/json")])
        return [b"{}"]

    def tags(arn: str, region: str) -> dict[str, str]:
        return {"team": "vision" if arn == f"arn:aws:batch:{region}:{accounts.ACCOUNT}:job/ours" else "audio"}

    with socket.create_server(("127.0.0.1", 0)) as listening:
        served = serve_socket(listening, Gateway({"batch": batch}, {}, {"batch": tags}, {}))
    names = {"AccessKeyId": "access_key_id", "SecretAccessKey": "secret_access_key", "Token": "session_token"}
    given: Any = {f"aws_{ours}": key[theirs] for theirs, ours in names.items()}
    client = boto3.client("batch", region_name=REGION, endpoint_url=f"http://127.0.0.1:{served.port}", **given)
    try:
        client.terminate_job(jobId="ours", reason="test")
        with pytest.raises(ClientError, match="AccessDeniedException"):
            client.terminate_job(jobId="theirs", reason="test")
    finally:
        client.close()
        served.close()
    assert ended == ["ours"]


@pytest.fixture
def connection() -> Iterator[http.client.HTTPConnection]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        served = serve_socket(listening, echo)
    client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    yield client
    client.close()
    served.close()


def test_a_socket_that_is_handed_over_is_served(connection: http.client.HTTPConnection):
    for method, body, expected in (
        ("POST", b"ab", b"abab"),
        ("PUT", [b"a", b"b"], b"abab"),
        ("HEAD", None, b""),
        ("GET", None, b""),
    ):
        connection.request(method, "/", body, encode_chunked=isinstance(body, list))
        answer = connection.getresponse()
        assert (answer.status, answer.headers["X-Method"], answer.read()) == (200, method, expected)


def test_a_client_that_waits_for_100_continue_is_told_to_go_on(connection: http.client.HTTPConnection):
    connection.connect()
    connection.sock.sendall(b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert connection.sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sock.sendall(b"ab")
    assert b"\r\n\r\nabab" in connection.sock.recv(1000)


def test_an_app_can_drop_the_connection_or_fail(connection: http.client.HTTPConnection):
    connection.request("GET", "/drop")
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        connection.getresponse()
    connection.close()
    connection.request("GET", "/fail")
    assert connection.getresponse().status == 500


@pytest.mark.parametrize(
    ("form", "action", "resources"),
    [
        ("Action=PutMetricAlarm&AlarmName=a-1", "PutMetricAlarm", ["alarm:a-1"]),
        (
            "Action=DeleteAlarms&AlarmNames.member.1=a-1&AlarmNames.member.2=a-2",
            "DeleteAlarms",
            ["alarm:a-1", "alarm:a-2"],
        ),
        ("Action=DeleteDashboards&DashboardNames.member.1=d", "DeleteDashboards", ["dashboard/d"]),
    ],
)
def test_cloudwatch_is_understood_in_the_protocol_of_other_sdks(form: str, action: str, resources: list[str]):
    scope = Scope("key", "20261123", REGION, "monitoring", (), "")
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "RAW_URI": "/", "QUERY_STRING": ""}
    environ |= {"CONTENT_TYPE": "application/x-www-form-urlencoded; charset=utf-8", "localcloud.body": form.encode()}
    call = read_call(environ, scope)
    assert protocol_of(environ, scope) == "query"
    assert [(check.action, check.resource.rpartition(f"{accounts.ACCOUNT}:")[2]) for check in call.checks] == [
        (f"cloudwatch:{action}", resource) for resource in resources
    ]


@pytest.mark.parametrize("operation", ["SendMessage", "DeleteMessage"])
def test_a_batch_of_messages_needs_the_permission_of_one(operation: str):
    queue = {"QueueUrl": f"https://sqs.{REGION}.amazonaws.com/{accounts.ACCOUNT}/tiles", "Entries": []}
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/", "RAW_URI": "/", "QUERY_STRING": ""}
    environ |= {"CONTENT_TYPE": "application/x-amz-json-1.0", "HTTP_X_AMZ_TARGET": f"AmazonSQS.{operation}Batch"}
    environ["localcloud.body"] = json.dumps(queue).encode()
    call = read_call(environ, Scope("key", "20261123", REGION, "sqs", (), ""))
    arn = f"arn:aws:sqs:{REGION}:{accounts.ACCOUNT}:tiles"
    assert [(check.action, check.resource) for check in call.checks] == [(f"sqs:{operation}", arn)]
