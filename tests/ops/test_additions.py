"""What somebody added by hand. AWS is moto's; Google's answers are made by hand after its reference.

It cannot prove that CI's reader may ask the real clouds: the permissions are in docs/ci.md, from their references.
"""

from dataclasses import replace
from typing import Any

import boto3
import click
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.parsers import ResponseParserError
from google.auth.exceptions import DefaultCredentialsError
from moto import mock_aws
from requests import ConnectionError as NoConnectionError

from components.config import StackConfig
from ops.additions import Resource, ask, aws, exported, gcp
from tests.ops.review_steps import statement

REGION = "us-west-2"
TRUST = statement(Action="sts:AssumeRole", Principal={"Service": "ec2.amazonaws.com"})
POLICY = statement(Action="s3:GetObject", Resource="*")


class Buckets:
    """The policies of buckets, as S3 answers."""

    def __init__(self) -> None:
        self.policies: dict[str, str] = {}

    def get_bucket_policy(self, Bucket: str) -> dict[str, str]:  # noqa: N803
        if Bucket not in self.policies:
            raise ClientError({"Error": {"Code": "NoSuchBucketPolicy", "Message": "none"}}, "GetBucketPolicy")
        return {"Policy": self.policies[Bucket]}


class Clients:
    """moto's IAM and EC2, and buckets of this test alone."""

    def __init__(self, session: boto3.Session) -> None:
        self._session, self._buckets = session, Buckets()

    def client(self, service_name: str) -> Any:
        return self._buckets if service_name == "s3" else self._session.client(service_name)


@pytest.fixture
def stack(monkeypatch):
    """A role, a group and a bucket on moto, with the state that a program's `up` would have written."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "test")
    for key in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(key, raising=False)
    with mock_aws():
        session = boto3.Session(region_name=REGION)
        iam, ec2 = session.client("iam"), session.client("ec2")
        iam.create_role(RoleName="job", AssumeRolePolicyDocument=TRUST)
        iam.put_role_policy(RoleName="job", PolicyName="own", PolicyDocument=POLICY)
        vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        group = ec2.create_security_group(GroupName="machines", Description="d", VpcId=vpc)["GroupId"]
        [egress] = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])[
            "SecurityGroupRules"
        ]
        found = [
            Resource("aws:iam/role:Role", "job-role", {"name": "job"}),
            Resource("aws:iam/rolePolicy:RolePolicy", "job-policy", {"role": "job", "name": "own"}),
            Resource(
                "aws:ec2/securityGroup:SecurityGroup",
                "group",
                {"arn": f"arn:aws:ec2:{REGION}:123456789012:security-group/{group}"},
            ),
            Resource(
                "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
                "out",
                {"securityGroupRuleId": egress["SecurityGroupRuleId"]},
            ),
            Resource("aws:s3/bucket:Bucket", "store-bucket", {"bucket": "store"}),
        ]
        yield Clients(session), found, group


def test_what_the_program_made_is_no_addition(stack):
    session, found, _ = stack
    assert list(aws.added(found, REGION, session)) == []


def test_policies_rules_and_bucket_policies_that_somebody_added_are_told(stack):
    session, found, group = stack
    iam, ec2, s3 = (session.client(name) for name in ("iam", "ec2", "s3"))
    policy = iam.create_policy(PolicyName="wide", PolicyDocument=POLICY)["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="job", PolicyArn=policy)
    iam.put_role_policy(RoleName="job", PolicyName="everything", PolicyDocument=POLICY)
    ec2.authorize_security_group_ingress(
        GroupId=group,
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    )
    s3.policies["store"] = POLICY
    told = [(each.resource, each.what) for each in aws.added(found, REGION, session)]
    assert told[:2] == [("job-role", "the inline policy everything"), ("job-role", f"the attached policy {policy}")]
    assert told[2][0] == "group"
    assert told[2][1].startswith("the ingress rule sgr-")
    assert told[2][1].endswith(": tcp 22 to 22, 0.0.0.0/0")
    assert told[3:] == [("store-bucket", "a bucket policy")]
    known = [*found, Resource("aws:s3/bucketPolicy:BucketPolicy", "p", {"bucket": "store"})]
    attached = Resource("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "a", {"role": "job", "policyArn": policy})
    assert len(list(aws.added([*known, attached], REGION, session))) == 2


def test_what_the_cloud_answered_is_not_what_the_program_gave(stack):
    """After a refresh the outputs of a role and a group have every policy and rule, whoever made it."""
    session, (role, own, group, *others), _ = stack
    iam, ec2 = (session.client(name) for name in ("iam", "ec2"))
    iam.put_role_policy(RoleName="job", PolicyName="everything", PolicyDocument=POLICY)
    ec2.authorize_security_group_ingress(
        GroupId=group.values["arn"].rpartition("/")[2],
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    )
    policies, rules = {"inlinePolicies": [{"name": "everything"}]}, {"ingress": [{"fromPort": 22}]}
    refreshed = [replace(role, values={**role.values, **policies}), replace(group, values={**group.values, **rules})]
    told = [each.resource for each in aws.added([*refreshed, own, *others], REGION, session)]
    assert told == ["job-role", "group"]
    given = [replace(role, inputs=policies), replace(group, inputs=rules)]
    assert list(aws.added([*given, own, *others], REGION, session)) == []


def test_a_role_that_is_gone_is_the_refreshs_to_tell(stack):
    session, *_ = stack
    assert list(aws.added([Resource("aws:iam/role:Role", "r", {"name": "gone"})], REGION, session)) == []


EMAIL = "worker@vision-dev.iam.gserviceaccount.com"
ACCOUNT = f"serviceAccount:{EMAIL}"
NETWORK = "https://www.googleapis.com/compute/v1/projects/vision-dev/global/networks/own"
FOUND = [
    Resource(
        "gcp:serviceaccount/account:Account", "worker", {"email": EMAIL, "name": f"projects/p/serviceAccounts/{EMAIL}"}
    ),
    Resource("gcp:projects/iAMMember:IAMMember", "grant", {"role": "roles/logging.logWriter", "member": ACCOUNT}),
    Resource("gcp:storage/bucket:Bucket", "store", {"name": "store-1"}),
    Resource("gcp:storage/bucket:Bucket", "logs", {"name": "logs-1"}),
    Resource(
        "gcp:storage/bucketIAMMember:BucketIAMMember",
        "read",
        {"bucket": "b/store-1", "role": "roles/storage.objectUser", "member": ACCOUNT},
    ),
    Resource("gcp:pubsub/topic:Topic", "topic", {"name": "t", "project": "vision-dev"}),
    Resource("gcp:compute/network:Network", "network", {"selfLink": NETWORK}),
    Resource("gcp:compute/firewall:Firewall", "deny", {"name": "own-deny"}),
]


def bound(*bindings: tuple[str, str]) -> dict:
    return {"bindings": [{"role": role, "members": [member]} for role, member in bindings]}


OWN = {
    "v1/projects/vision-dev:getIamPolicy": bound(
        ("roles/logging.logWriter", ACCOUNT), ("roles/owner", "user:ann@example.com")
    ),
    "storage/v1/b/store-1/iam": bound(
        ("roles/storage.objectUser", ACCOUNT), ("roles/storage.legacyBucketOwner", "projectOwner:vision-dev")
    ),
    "compute/v1/projects/vision-dev/global/firewalls": {"items": [{"name": "own-deny", "network": NETWORK}]},
}
ADDED = {
    "v1/projects/vision-dev:getIamPolicy": bound(("roles/logging.logWriter", ACCOUNT), ("roles/editor", ACCOUNT)),
    "storage/v1/b/store-1/iam": bound(
        ("roles/storage.objectUser", ACCOUNT), ("roles/storage.objectViewer", "allUsers")
    ),
    "storage/v1/b/logs-1/iam": bound(("roles/storage.objectUser", ACCOUNT)),
    "v1/projects/vision-dev/topics/t:getIamPolicy": bound(("roles/pubsub.publisher", "user:eve@example.com")),
    f"v1/projects/vision-dev/serviceAccounts/{EMAIL}:getIamPolicy": bound(
        ("roles/iam.serviceAccountUser", "user:eve@example.com")
    ),
    "compute/v1/projects/vision-dev/global/firewalls": {
        "items": [
            {"name": "own-deny", "network": NETWORK},
            {"name": "ssh", "network": NETWORK},
            {"name": "others", "network": NETWORK + "-two"},
        ]
    },
}


def test_google_bindings_and_firewall_rules_that_somebody_added_are_told():
    assert list(gcp.added(FOUND, "vision-dev", lambda api, method, path, query: OWN.get(path))) == []
    told = [
        (each.resource, each.what) for each in gcp.added(FOUND, "vision-dev", lambda a, m, path, q: ADDED.get(path))
    ]
    assert told == [
        ("store", "roles/storage.objectViewer for allUsers"),
        ("logs", f"roles/storage.objectUser for {ACCOUNT}"),
        ("topic", "roles/pubsub.publisher for user:eve@example.com"),
        ("worker", "roles/iam.serviceAccountUser for user:eve@example.com"),
        ("worker", f"roles/editor for {ACCOUNT} on the project"),
        ("network", "the firewall rule ssh"),
    ]


def test_firewall_rules_are_read_to_the_last_page():
    """Google leaves out what a filter does not take, so a page may be empty before the last one."""
    firewalls = "compute/v1/projects/vision-dev/global/firewalls"
    pages = {"": {"nextPageToken": "two"}, "two": {"nextPageToken": "three"}, "three": ADDED[firewalls]}

    def ask(api: str, method: str, path: str, query: dict[str, str]) -> dict | None:
        return pages[query.get("pageToken", "")] if path == firewalls else OWN.get(path)

    assert [each.what for each in gcp.added(FOUND, "vision-dev", ask)] == ["the firewall rule ssh"]
    pages["three"] = {"nextPageToken": "two", **ADDED[firewalls]}
    assert [each.what for each in gcp.added(FOUND, "vision-dev", ask)] == ["the firewall rule ssh"], "it goes round"


def test_a_binding_on_a_condition_is_not_the_same_without_it():
    known = Resource(
        "gcp:projects/iAMMember:IAMMember",
        "grant",
        {"role": "roles/editor", "member": ACCOUNT, "condition": {"expression": "false"}},
    )
    answers = {"v1/projects/vision-dev:getIamPolicy": bound(("roles/editor", ACCOUNT))}
    found = [FOUND[0], known]
    assert [each.what for each in gcp.added(found, "vision-dev", lambda a, m, path, q: answers.get(path))] == [
        f"roles/editor for {ACCOUNT} on the project"
    ]


def test_the_state_is_what_the_backend_exports():
    urn = "urn:pulumi:s::tidemill::tidemill:index:Pipeline$aws:s3/bucket:Bucket::a"
    state = {"urn": urn, "type": "aws:s3/bucket:Bucket", "id": "1", "inputs": {"x": 1}, "outputs": {"x": 2}}
    known = Resource("aws:s3/bucket:Bucket", "a", {"id": "1", "x": 2}, {"x": 1})
    assert exported({"deployment": {"resources": [state]}}) == [known]
    assert exported({"deployment": {}}) == []


@pytest.mark.parametrize(
    ("cloud", "refusal"),
    [
        (aws, NoCredentialsError()),
        (aws, ResponseParserError("half an answer")),
        (gcp, DefaultCredentialsError("no login")),
        (gcp, NoConnectionError("no way")),
    ],
)
def test_a_cloud_that_cannot_be_asked_is_told(monkeypatch, cloud, refusal):
    def refuses(*_):
        raise refusal

    monkeypatch.setattr(ask, "answered", lambda *_, **__: {"deployment": {}})
    monkeypatch.setattr("ops.engine.region_of", lambda *_: REGION)
    monkeypatch.setattr(cloud, "added", refuses)
    name = cloud.__name__.rpartition(".")[2]
    with pytest.raises(click.ClickException, match=f"cannot be read: {refusal}"):
        ask.additions("vision-dev", StackConfig.model_construct(cloud=name))
