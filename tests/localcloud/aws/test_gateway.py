"""The gateway through the clients that people and workers use. This does not prove what AWS itself would allow."""

from __future__ import annotations

import functools
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError
from obstore.exceptions import AlreadyExistsError, GenericError, PermissionDeniedError
from obstore.store import S3Store

from localcloud.cloud import REGION, ROOT, Cloud, CloudError

ACCOUNT = "123456789012"


class Gateway(Cloud):
    """A localcloud of this test run, and the clients of it."""

    @functools.cached_property
    def key(self) -> dict[str, str]:
        kept = json.loads((self.state / "credentials.json").read_text())
        return {f"aws_{name}": value for name, value in kept.items()}

    def client(self, service: str, **key: Any) -> Any:
        key = key or self.key
        config = Config(retries={"max_attempts": 0}, read_timeout=120, connect_timeout=120)
        return boto3.client(service, region_name=REGION, endpoint_url=self.url, config=config, **key)

    def store(self, bucket: str, retries: int = 0, **key: Any) -> S3Store:
        names = {"aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key"}
        given: Any = {names.get(name, name.removeprefix("aws_")): value for name, value in (key or self.key).items()}
        return S3Store(
            bucket,
            endpoint=self.url,
            region=REGION,
            client_options={"allow_http": True, "timeout": "120s"},
            retry_config={"max_retries": retries},
            **given,
        )

    def role(self, name: str, *statements: dict[str, Any], **more: Any) -> str:
        """Create a role that the deployer may assume; its ARN."""
        trust = more.pop("trust", {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"})
        iam = self.client("iam")
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(trust), **more)["Role"]
        if statements:
            iam.put_role_policy(RoleName=name, PolicyName="own", PolicyDocument=document(*statements))
        return role["Arn"]

    def session(self, arn: str, **more: Any) -> dict[str, Any]:
        """Assume a role; the key as clients take it."""
        key = self.client("sts").assume_role(RoleArn=arn, RoleSessionName="test", **more)["Credentials"]
        names = {
            "AccessKeyId": "access_key_id",
            "SecretAccessKey": "secret_access_key",
            "SessionToken": "session_token",
        }
        return {f"aws_{ours}": key[theirs] for theirs, ours in names.items()}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(actions: Any, resources: Any = "*", **condition: Any) -> dict[str, Any]:
    more = {"Condition": condition} if condition else {}
    return {"Effect": "Allow", "Action": actions, "Resource": resources, **more}


def refused(call: Any, **parameters: Any) -> tuple[str, int, str]:
    """Code, status and message of the refusal that a call must meet."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer: Any = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"].get("Message", "")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="module")
def bucket(cloud: Gateway) -> str:
    cloud.client("s3").create_bucket(Bucket="team", CreateBucketConfiguration={"LocationConstraint": REGION})
    return "team"


# Who calls


def test_the_deployer_is_admin(cloud: Gateway):
    assert cloud.client("sts").get_caller_identity()["Arn"] == f"arn:aws:iam::{ACCOUNT}:user/deployer"
    assert cloud.client("iam").list_roles()["Roles"] is not None
    assert (cloud.state / "credentials.json").stat().st_mode & 0o777 == 0o600


SERVICES = {
    "sts": ("get_caller_identity", "SignatureDoesNotMatch", "InvalidClientTokenId", 403),
    "iam": ("list_roles", "SignatureDoesNotMatch", "InvalidClientTokenId", 403),
    "s3": ("list_buckets", "SignatureDoesNotMatch", "InvalidAccessKeyId", 403),
    "ec2": ("describe_vpcs", "AuthFailure", "AuthFailure", 401),
    "logs": ("describe_log_groups", "InvalidSignatureException", "UnrecognizedClientException", 400),
    "ecr": ("describe_repositories", "InvalidSignatureException", "UnrecognizedClientException", 400),
    "batch": ("describe_job_queues", "InvalidSignatureException", "UnrecognizedClientException", 403),
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_wrong_secret_and_an_unknown_key_are_refused_in_the_shape_of_the_service(cloud: Gateway, service: str):
    operation, wrong, unknown, status = SERVICES[service]
    forged = {**cloud.key, "aws_secret_access_key": "guessed"}
    assert refused(getattr(cloud.client(service, **forged), operation))[:2] == (wrong, status)
    stranger = {**cloud.key, "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE"}
    assert refused(getattr(cloud.client(service, **stranger), operation))[:2] == (unknown, status)


def test_a_session_needs_its_own_token(cloud: Gateway):
    key = cloud.session(cloud.role("tokens", allow("iam:ListRoles")))
    assert cloud.client("iam", **key).list_roles()["Roles"]
    for token in ("another", None):
        assert (
            refused(cloud.client("iam", **{**key, "aws_session_token": token}).list_roles)[0] == "InvalidClientTokenId"
        )


@pytest.mark.parametrize(
    "path", ["/", "/team/key", "/v1/describejobqueues", "/moto-api/data.json", "/latest/meta-data/"]
)
def test_nobody_is_served_without_a_signature(cloud: Gateway, bucket: str, path: str):
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(cloud.url + path, timeout=120)
    assert caught.value.code == 403
    assert (b"AccessDenied" if path == "/team/key" else b"MissingAuthenticationToken") in caught.value.read()


def test_a_body_that_was_changed_on_the_way_is_refused(cloud: Gateway, bucket: str):
    s3 = cloud.client("s3")

    def change(request: Any, **_: Any) -> None:
        request.body = b"wrong"

    s3.meta.events.register("before-send", change)
    assert refused(s3.put_object, Bucket=bucket, Key="changed", Body=b"right")[:2] == ("XAmzContentSHA256Mismatch", 400)


def test_a_restarted_daemon_accepts_the_same_key(tmp_path: Path):
    with Gateway(tmp_path) as first:
        key = first.key
    with Gateway(tmp_path) as second:
        assert second.client("sts", **key).get_caller_identity()["Account"] == ACCOUNT


# Whether they may


def test_a_role_may_what_its_policies_say(cloud: Gateway, bucket: str):
    jobs = allow(["s3:GetObject", "s3:PutObject"], f"arn:aws:s3:::{bucket}/jobs/*")
    names = allow("s3:ListBucket", f"arn:aws:s3:::{bucket}", StringLike={"s3:prefix": "jobs/*"})
    key = cloud.session(cloud.role("job", jobs, names))
    store = cloud.store(bucket, **key)
    store.put("jobs/a/done", b"1")
    assert bytes(store.get("jobs/a/done").bytes()) == b"1"
    assert [each["path"] for page in store.list("jobs/a/") for each in page] == ["jobs/a/done"]
    for call in (
        lambda: store.put("pipeline.json", b"{}"),
        lambda: list(store.list("out/")),
        lambda: store.delete("jobs/a/done"),
    ):
        with pytest.raises((PermissionDeniedError, GenericError), match=r"AccessDenied|403"):
            call()
    s3 = cloud.client("s3", **key)
    code, status, message = refused(s3.put_object, Bucket=bucket, Key="pipeline.json", Body=b"{}")
    assert (code, status) == ("AccessDenied", 403)
    assert message == (
        f"User: arn:aws:sts::{ACCOUNT}:assumed-role/job/test is not authorized to perform: s3:PutObject on resource: "
        f"arn:aws:s3:::{bucket}/pipeline.json because no identity-based policy allows the s3:PutObject action"
    )
    assert refused(s3.copy_object, Bucket=bucket, Key="jobs/copy", CopySource=f"{bucket}/out/x")[0] == "AccessDenied"
    assert refused(s3.list_buckets)[0] == "AccessDenied"
    refusals = cloud.control("denied")
    assert {
        "principal": "job",
        "action": "s3:GetObject",
        "resource": f"arn:aws:s3:::{bucket}/out/x",
    }.items() <= refusals[-2].items()
    counted = [each for each in cloud.control("calls") if each["principal"] == "job"]
    assert {"principal": "job", "action": "s3:PutObject", "allowed": True, "count": 2} in counted


def test_multipart_upload_and_bulk_deletion_ask_for_each_key(cloud: Gateway, bucket: str):
    resources = f"arn:aws:s3:::{bucket}/own/*"
    key = cloud.session(cloud.role("parts", allow(["s3:PutObject", "s3:DeleteObject"], resources)))
    s3 = cloud.client("s3", **key)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="own/big & <old>")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="own/big & <old>", UploadId=upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="own/big & <old>", UploadId=upload, MultipartUpload=parts)
    objects = [{"Key": "own/big & <old>"}]
    assert (
        refused(s3.delete_objects, Bucket=bucket, Delete={"Objects": [*objects, {"Key": "other"}]})[0] == "AccessDenied"
    )
    assert [each["Key"] for each in s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})["Deleted"]] == [
        "own/big & <old>"
    ]
    assert refused(s3.create_multipart_upload, Bucket=bucket, Key="other")[0] == "AccessDenied"


def test_who_may_not_list_learns_nothing_of_missing_keys(cloud: Gateway, bucket: str):
    read = allow("s3:GetObject", f"arn:aws:s3:::{bucket}/*")
    names = allow("s3:ListBucket", f"arn:aws:s3:::{bucket}", StringLike={"s3:prefix": "jobs/*"})
    s3 = cloud.client("s3", **cloud.session(cloud.role("reader", read, names)))
    assert refused(s3.get_object, Bucket=bucket, Key="jobs/none")[:2] == ("NoSuchKey", 404)
    assert refused(s3.head_object, Bucket=bucket, Key="jobs/none")[1] == 404
    assert refused(s3.get_object, Bucket=bucket, Key="out/none")[:2] == ("AccessDenied", 403)
    assert refused(s3.head_object, Bucket=bucket, Key="out/none")[1] == 403
    assert refused(s3.get_object, Bucket="no-such-bucket", Key="x")[0] == "AccessDenied"


def test_a_bucket_policy_grants_and_denies(cloud: Gateway):
    admin = cloud.client("s3")
    admin.create_bucket(Bucket="closed", CreateBucketConfiguration={"LocationConstraint": REGION})
    arn = cloud.role("guest")
    everything = ["arn:aws:s3:::closed", "arn:aws:s3:::closed/*"]
    insecure = {"Bool": {"aws:SecureTransport": "false"}}
    policy = document(
        {"Effect": "Allow", "Principal": {"AWS": arn}, "Action": "s3:GetObject", "Resource": everything},
        {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": everything, "Condition": insecure},
    )
    admin.put_object(Bucket="closed", Key="k", Body=b"1")
    admin.put_bucket_policy(Bucket="closed", Policy=policy)
    guest = cloud.client("s3", **cloud.session(arn))
    assert guest.get_object(Bucket="closed", Key="k")["Body"].read() == b"1"
    assert refused(guest.put_object, Bucket="closed", Key="k", Body=b"2")[0] == "AccessDenied"

    def plainly(request: Any, **_: Any) -> None:
        request.headers["X-Localcloud-Insecure"] = "1"

    admin.meta.events.register("before-send", plainly)
    code, _, message = refused(admin.get_object, Bucket="closed", Key="k")
    assert code == "AccessDenied"
    assert message.endswith("with an explicit deny in a resource-based policy")


def test_a_bucket_with_a_key_of_its_own_asks_for_the_key(cloud: Gateway):
    admin, name = cloud.client("s3"), "encrypted"
    admin.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
    key = cloud.client("kms").create_key()["KeyMetadata"]["Arn"]
    default = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
    admin.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": [default]})
    role = cloud.role("keyless", allow("s3:*"))
    s3 = cloud.client("s3", **cloud.session(role))
    assert f"kms:GenerateDataKey on resource: {key} " in refused(s3.put_object, Bucket=name, Key="k", Body=b"1")[2]
    admin.put_object(Bucket=name, Key="k", Body=b"1")
    assert f"kms:Decrypt on resource: {key} " in refused(s3.get_object, Bucket=name, Key="k")[2]
    use = document(allow(["kms:GenerateDataKey", "kms:Decrypt"], key))
    cloud.client("iam").put_role_policy(RoleName="keyless", PolicyName="key", PolicyDocument=use)
    s3.put_object(Bucket=name, Key="k", Body=b"2")
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"2"


def test_changed_policies_count_at_the_next_call(cloud: Gateway):
    arn = cloud.role("changing", allow("iam:ListRoles"))
    iam, caller = cloud.client("iam"), cloud.client("iam", **cloud.session(arn))
    assert caller.list_roles()["Roles"]
    iam.delete_role_policy(RoleName="changing", PolicyName="own")
    assert refused(caller.list_roles)[:2] == ("AccessDenied", 403)
    iam.attach_role_policy(RoleName="changing", PolicyArn="arn:aws:iam::aws:policy/IAMReadOnlyAccess")
    assert caller.list_roles()["Roles"]
    iam.detach_role_policy(RoleName="changing", PolicyArn="arn:aws:iam::aws:policy/IAMReadOnlyAccess")
    iam.delete_role(RoleName="changing")
    assert refused(caller.list_roles)[0] == "AccessDenied"


def test_only_whom_the_trust_policy_names_may_assume_a_role(cloud: Gateway):
    service = {"Effect": "Allow", "Principal": {"Service": "ecs-tasks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    tasks = cloud.role("tasks-only", allow("*"), trust=service)
    sts = cloud.client("sts")
    code, status, message = refused(sts.assume_role, RoleArn=tasks, RoleSessionName="test")
    assert (code, status) == ("AccessDenied", 403)
    assert message.endswith("because no resource-based policy allows the sts:AssumeRole action")
    missing = f"arn:aws:iam::{ACCOUNT}:role/missing"
    assert refused(sts.assume_role, RoleArn=missing, RoleSessionName="test")[0] == "AccessDenied"
    target = cloud.role("target", allow("iam:ListRoles"))
    powerless = cloud.client("sts", **cloud.session(cloud.role("powerless")))
    assert (
        refused(powerless.assume_role, RoleArn=target, RoleSessionName="test")[2].count("no identity-based policy") == 1
    )
    assert powerless.get_caller_identity()["Arn"].endswith("assumed-role/powerless/test")


def test_logs_are_asked_by_stream_whatever_the_call(cloud: Gateway):
    logs = cloud.client("logs")
    for group in ("/tidemill/a", "/tidemill/b"):
        logs.create_log_group(logGroupName=group)
    streams = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/tidemill/a:*"
    writing = allow(["logs:CreateLogStream", "logs:PutLogEvents", "logs:FilterLogEvents"], streams)
    key = cloud.session(cloud.role("logger", writing))
    logger = cloud.client("logs", **key)
    logger.create_log_stream(logGroupName="/tidemill/a", logStreamName="s")
    event = {"timestamp": int(time.time() * 1000), "message": "hello"}
    logger.put_log_events(logGroupName="/tidemill/a", logStreamName="s", logEvents=[event])
    assert logger.filter_log_events(logGroupName="/tidemill/a")["events"][0]["message"] == "hello"
    code, status, message = refused(logger.create_log_stream, logGroupName="/tidemill/b", logStreamName="s")
    assert (code, status) == ("AccessDeniedException", 400)
    assert f"on resource: arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/tidemill/b:log-stream:s " in message
    exact = cloud.session(cloud.role("exact", allow("logs:FilterLogEvents", streams.removesuffix(":*"))))
    assert (
        refused(cloud.client("logs", **exact).filter_log_events, logGroupName="/tidemill/a")[0]
        == "AccessDeniedException"
    )


def test_batch_asks_for_queue_definition_share_and_tags(cloud: Gateway):
    arn = f"arn:aws:batch:{REGION}:{ACCOUNT}"
    submit = allow("batch:SubmitJob", [f"{arn}:job-definition/ours:*", f"{arn}:job-queue/ours"],
                   StringEqualsIfExists={"batch:ShareIdentifier": "${aws:PrincipalTag/user}"})  # fmt: skip
    tag = allow("batch:TagResource", f"{arn}:job-definition/ours:*", StringEquals={"aws:RequestTag/team": "vision"})
    role = cloud.role(
        "submitter", submit, tag, allow(["batch:Describe*", "batch:List*"]), Tags=[{"Key": "user", "Value": "ann"}]
    )
    batch = cloud.client("batch", **cloud.session(role))
    job = {"jobName": "j", "jobQueue": "ours", "jobDefinition": "ours:1", "shareIdentifier": "ann"}

    def answer(**changes: Any) -> tuple[str, str]:
        code, _, message = refused(batch.submit_job, **{**job, **changes})
        return code, message

    # None of this exists: a caller who may submit gets Batch's own refusal.
    assert answer()[0] == "ClientException"
    assert answer(tags={"team": "vision"})[0] == "ClientException"
    assert (
        answer(jobQueue=f"{arn}:job-queue/ours", jobDefinition=f"{arn}:job-definition/ours:1")[0] == "ClientException"
    )
    for changes, what in (
        ({"jobQueue": "theirs"}, f"batch:SubmitJob on resource: {arn}:job-queue/theirs "),
        ({"jobDefinition": "theirs:1"}, f"batch:SubmitJob on resource: {arn}:job-definition/theirs:1 "),
        ({"shareIdentifier": "bob"}, "batch:SubmitJob on resource: "),
        ({"tags": {"team": "audio"}}, f"batch:TagResource on resource: {arn}:job-definition/ours:1 "),
    ):
        code, message = answer(**changes)
        assert code == "AccessDeniedException", changes
        assert what in message, changes
    assert batch.describe_job_queues()["jobQueues"] == []
    definition = {"jobDefinitionName": "d", "type": "container"}
    assert refused(batch.register_job_definition, **definition)[:2] == ("AccessDeniedException", 403)


def test_a_launch_template_is_made_and_changed_by_its_tag_and_claimed_by_nobody(cloud: Gateway):
    templates = f"arn:aws:ec2:{REGION}:{ACCOUNT}:launch-template/*"
    asked, own = ({f"aws:{kind}Tag/team": "vision"} for kind in ("Request", "Resource"))
    role = cloud.role(
        "builder",
        allow("ec2:CreateLaunchTemplate", templates, StringEquals=asked),
        allow("ec2:CreateTags", templates, StringEquals={**asked, "ec2:CreateAction": "CreateLaunchTemplate"}),
        allow(["ec2:CreateTags", "ec2:CreateLaunchTemplateVersion"], templates, StringEquals=own),
    )
    ec2 = cloud.client("ec2", **cloud.session(role))
    data = {"InstanceType": "c7i.large"}

    def made(by: Any, name: str, **tags: str) -> str:
        pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
        given = {"TagSpecifications": [{"ResourceType": "launch-template", "Tags": pairs}]} if pairs else {}
        answer = by.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data, **given)
        return answer["LaunchTemplate"]["LaunchTemplateId"]

    ours, theirs = made(ec2, "ours", team="vision"), made(cloud.client("ec2"), "theirs")
    ec2.create_launch_template_version(LaunchTemplateId=ours, LaunchTemplateData=data)
    ec2.create_tags(Resources=[ours], Tags=[{"Key": "more", "Value": "1"}])
    machines = [{"ResourceType": "instance", "Tags": [{"Key": "team", "Value": "vision"}]}]
    for call, wanted in (
        (ec2.create_launch_template, {"LaunchTemplateName": "bare", "LaunchTemplateData": data}),
        # Tags of its machines are not the template's.
        (
            ec2.create_launch_template,
            {"LaunchTemplateName": "bare", "LaunchTemplateData": {**data, "TagSpecifications": machines}},
        ),
        (ec2.create_launch_template_version, {"LaunchTemplateId": theirs, "LaunchTemplateData": data}),
        (ec2.create_tags, {"Resources": [theirs], "Tags": [{"Key": "team", "Value": "vision"}]}),
    ):
        assert refused(call, **wanted)[0] == "UnauthorizedOperation", wanted


def test_handing_over_a_role_needs_pass_role(cloud: Gateway):
    handed = cloud.role("handed")
    key = cloud.session(cloud.role("registrar", allow("batch:*")))
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
    container = {"image": "x", "jobRoleArn": handed, "command": ["true"], "resourceRequirements": needs}
    definition = {"jobDefinitionName": "d", "type": "container", "containerProperties": container}
    message = refused(cloud.client("batch", **key).register_job_definition, **definition)[2]
    assert f"iam:PassRole on resource: {handed} " in message


def test_an_operation_that_no_service_has_is_denied_even_to_the_administrator(cloud: Gateway):
    iam = cloud.client("iam")

    def rename(params: dict[str, Any], **_: Any) -> None:
        params["body"]["Action"] = "GrantEverything"

    iam.meta.events.register("before-call.iam.ListRoles", rename)
    code, status, message = refused(iam.list_roles)
    assert (code, status) == ("AccessDenied", 403)
    assert "GrantEverything is not an operation" in message


# Faults


@pytest.fixture
def faulty(cloud: Gateway) -> Iterator[Gateway]:
    yield cloud
    cloud.control("faults", clear=True)


def test_a_409_writes_nothing_and_is_told_apart(faulty: Gateway, bucket: str):
    store = faulty.store(bucket)
    faulty.control("faults", match="^PUT faults/a$", answer="409", times=1)
    with pytest.raises(AlreadyExistsError):
        store.put("faults/a", b"1", mode="create")
    with pytest.raises(FileNotFoundError):
        store.get("faults/a")
    store.put("faults/a", b"1", mode="create")
    with pytest.raises(AlreadyExistsError):
        store.put("faults/a", b"2", mode="create")
    assert bytes(store.get("faults/a").bytes()) == b"1"
    assert faulty.control("faults") == [{"match": "^PUT faults/a$", "answer": "409", "left": 0, "hits": 1}]


@pytest.mark.parametrize("answer", ["500-after", "drop-after"])
def test_a_lost_answer_leaves_the_object_and_the_retry_meets_it(faulty: Gateway, bucket: str, answer: str):
    faulty.control("faults", match=f"^PUT faults/{answer}$", answer=answer, times=1)
    with pytest.raises(AlreadyExistsError):
        faulty.store(bucket, retries=3).put(f"faults/{answer}", b"1", mode="create")
    assert bytes(faulty.store(bucket).get(f"faults/{answer}").bytes()) == b"1"


def test_a_dropped_request_is_not_written(faulty: Gateway, bucket: str):
    faulty.control("faults", match="^PUT faults/dropped$", answer="drop", times=1)
    with pytest.raises(ConnectionClosedError):
        faulty.client("s3").put_object(Bucket=bucket, Key="faults/dropped", Body=b"1")
    assert refused(faulty.client("s3").get_object, Bucket=bucket, Key="faults/dropped")[0] == "NoSuchKey"


@pytest.mark.parametrize(
    "body",
    [
        {"match": "x", "answer": "418"},
        {"match": "(", "answer": "409"},
        {"answer": "409"},
        {"match": "x", "answer": 409},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(cloud: Gateway, body: dict[str, Any]):
    with pytest.raises(CloudError, match="faults: 400"):
        cloud.control("faults", **body)
    assert cloud.control("faults") == []


def test_an_unknown_control_is_404_and_names_the_known(cloud: Gateway):
    with pytest.raises(CloudError, match=r"explode: 404 .*faults"):
        cloud.control("explode")


# The wire


def test_one_connection_carries_many_requests_of_every_framing(cloud: Gateway, bucket: str):
    connection = http.client.HTTPConnection(cloud.url.removeprefix("http://"), timeout=120)
    try:
        socket = None
        for body in (b"{}", None, [b"{", b"}"]):
            connection.request("POST", "/_localcloud/health", body, encode_chunked=isinstance(body, list))
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["status"]) == (200, "ok")
            socket = socket or connection.sock
            assert connection.sock is socket
    finally:
        connection.close()


@pytest.mark.parametrize("key", ["a b/c+d=e", "ü/ñ~*'()!", "a//b", "x?y&z#", "%41", "dot/./dot", "end/"])
def test_any_key_can_be_written_and_read_by_boto3(cloud: Gateway, bucket: str, key: str):
    s3 = cloud.client("s3")
    s3.put_object(Bucket=bucket, Key=f"keys/{key}", Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=f"keys/{key}")["Body"].read() == key.encode()
    assert f"keys/{key}" in [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix="keys/")["Contents"]]


def test_a_port_that_is_taken_is_one_clear_error(cloud: Gateway, tmp_path: Path):
    port = cloud.url.rpartition(":")[2]
    command = [sys.executable, "-m", "localcloud.aws.serve", "--state", str(tmp_path), "--port", port]
    ended = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 2
    assert f"--port {port}: [Errno 98] Address already in use" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_daemon_ends_soon_also_with_an_open_connection(tmp_path: Path):
    with Gateway(tmp_path) as running:
        connection = http.client.HTTPConnection(running.url.removeprefix("http://"), timeout=120)
        connection.request("GET", "/_localcloud/health")
        connection.getresponse().read()
        assert running.pid
        os.kill(running.pid, signal.SIGTERM)
        assert running._process.wait(timeout=300) == 0
        connection.close()
