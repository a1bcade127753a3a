"""Access that a change widens: the smallest preview that shows each case, next to one that must not."""

import json

import pytest

from tests.ops.review_steps import statement, step, told, urn

ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
MEMBER = "gcp:projects/iAMMember:IAMMember"
BOUND = {"Condition": {"Bool": {"a": "b"}}}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def policy(old, new, **other):
    before, after = ({"role": "job", "policy": text} for text in (old, new))
    return step("update", ROLE_POLICY, old=before, new=after, diff={"policy": "update"}, **other)


@pytest.mark.parametrize(
    ("old", "new", "severity", "added"),
    [
        ({"Action": "s3:Get*", "Resource": "*"}, {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/*"}, None, 0),
        ({"Action": ["s3:A", "s3:B"], "Resource": "*"}, {"Action": ["s3:B", "S3:a"], "Resource": "*"}, None, 0),
        ({"Action": "s3:A", "Resource": "x/?"}, {"Action": "s3:A", "Resource": ["x/1", "x/22"]}, "high", 1),
        ({"Action": "s3:A", "Resource": "x"}, {"Action": ["s3:A", "s3:B"], "Resource": ["x", "y"]}, "high", 3),
        ({"Action": "s3:A", "Resource": "x", **BOUND}, {"Action": "s3:A", "Resource": "x"}, "high", 1),
        ({"Action": "s3:A", "Resource": "x"}, {"Action": "s3:A", "Resource": "x", **BOUND}, None, 0),
        ({"Action": "s3:A", "Resource": "x"}, {"Action": "s3:*", "Resource": "x"}, "high", 1),
        ({"Action": "s3:A", "Resource": "x"}, {"Action": "*", "Resource": "*"}, "critical", 1),
        ({"Action": "s3:A", "Resource": "x"}, {"NotAction": "iam:*", "Resource": "*"}, "critical", 1),
        ({"Action": "s3:*", "Resource": "*"}, {"Action": "s3:A", "NotResource": "x"}, "high", 1),
    ],
)  # fmt: skip
def test_permissions_are_compared_one_by_one(old, new, severity, added):
    found = told(policy(statement(**old), statement(**new)), kind="access-widened")
    assert [(finding.severity, len(finding.details)) for finding in found] == ([(severity, added)] if severity else [])


def test_advice_that_is_granted_is_told_call_by_call():
    """`access.advise`: a policy of its own on AWS, permissions of a role that people have on GCP."""
    asked = statement(Action=["ec2:DescribeSpotPriceHistory", "ec2:GetSpotPlacementScores"], Resource="*")
    (found,) = told(step("create", "aws:iam/policy:Policy", new={"policy": asked}), kind="access-widened")
    assert [line.split()[1] for line in found.details] == ["ec2:DescribeSpotPriceHistory", "ec2:GetSpotPlacementScores"]
    role, before = "gcp:projects/iAMCustomRole:IAMCustomRole", ["monitoring.timeSeries.list"]
    added = {"permissions": [*before, "compute.advice.capacity"]}
    widened = step("update", role, old={"permissions": before}, new=added, diff={"permissions": "update"})
    (found,) = told(widened, kind="access-widened")
    assert found.severity == "high"
    assert "compute.advice.capacity" in found.details


def test_a_denial_that_is_gone_is_wider_access():
    deny = statement("Deny", Action="s3:*", Resource="*", Condition={"Bool": {"aws:SecureTransport": "false"}})
    (found,) = told(policy(deny, json.dumps({"Statement": []})), kind="access-widened")
    assert (found.severity, found.title) == ("high", "policy takes away 1 denial")
    assert told(policy(json.dumps({"Statement": []}), deny), kind="access-widened") == []


def test_denials_that_are_deleted_are_told_unless_what_they_bound_goes_too():
    bucket = urn("aws:s3/bucket:Bucket", "it")
    old = {"bucket": "it", "policy": statement("Deny", Action="s3:*", Resource="*", Principal="*")}
    gone = step("delete", "aws:s3/bucketPolicy:BucketPolicy", "closed", old=old, needs={"bucket": [bucket]})
    (found,) = told(gone, kind="access-widened")
    assert (found.severity, found.title) == ("high", "policy takes away 1 denial")
    assert told(gone, step("delete", "aws:s3/bucket:Bucket", old={}), kind="access-widened") == []


def test_a_boundary_that_is_taken_off_is_told():
    old, new = {"permissionsBoundary": "arn:aws:iam::123456789012:policy/team"}, {}
    (found,) = told(step("update", ROLE, old=old, new=new), kind="access-widened")
    assert (found.severity, found.details) == ("critical", ("arn:aws:iam::123456789012:policy/team",))


def test_a_policy_that_is_not_known_yet_is_said_to_be_and_never_passed_over():
    (found,) = told(policy(statement(Action="s3:A", Resource="x"), UNKNOWN), kind="access-widened")
    assert found.severity == "medium"
    assert "known only after up" in found.title


@pytest.mark.parametrize(
    ("principal", "severity"),
    [
        ({"Service": "ecs-tasks.amazonaws.com"}, "low"),
        ({"AWS": "arn:aws:iam::123456789012:role/people"}, "medium"),
        ({"AWS": "arn:aws:iam::210987654321:role/partner"}, "high"),
        ("*", "critical"),
        ({"AWS": "*"}, "critical"),
    ],
)
def test_who_may_assume_a_new_role_counts_by_how_far_away_they_are(principal, severity):
    own = step("same", ENVIRONMENT, "other", new={"serviceRole": "arn:aws:iam::123456789012:role/x"})
    text = statement(Action="sts:AssumeRole", Principal=principal)
    (found,) = told(own, own, step("create", ROLE, new={"assumeRolePolicy": text}), kind="access-widened")
    assert found.severity == severity


def test_permissions_of_a_role_that_is_itself_new_are_low_and_of_one_that_is_there_high():
    text = statement(Action="s3:GetObject", Resource="arn:aws:s3:::a/*")
    grant = {"role": "job", "policy": text}
    role = urn(ROLE, "job")
    fresh = [
        step("create", ROLE, "job", new={}),
        step("create", ROLE_POLICY, new=grant, needs={"role": [role]}),
    ]
    assert [finding.severity for finding in told(*fresh, kind="access-widened")] == ["low"]
    there = [step("same", ROLE, "job", new={}), step("create", ROLE_POLICY, new=grant, needs={"role": [role]})]
    assert [finding.severity for finding in told(*there, kind="access-widened")] == ["high"]


@pytest.mark.parametrize(
    ("role", "member", "severity"),
    [
        ("roles/owner", "user:a@example.com", "critical"),
        ("roles/storage.objectViewer", "allUsers", "critical"),
        ("roles/storage.admin", "group:a@example.com", "high"),
        ("roles/storage.objectViewer", "group:a@example.com", "high"),
    ],
)
def test_a_new_binding_on_what_is_there_is_at_least_high(role, member, severity):
    found = told(step("create", MEMBER, new={"role": role, "member": member, "project": "p"}), kind="access-widened")
    assert [finding.severity for finding in found] == [severity]
    assert found[0].details == (f"{role} to {member} on project p",)


def test_a_condition_that_is_taken_from_a_binding_widens_it_and_one_that_is_added_does_not():
    bare = {"role": "roles/x.y", "member": "group:a@example.com", "project": "p"}
    bound = {**bare, "condition": {"title": "t", "expression": "resource.name == 'a'"}}
    diff = {"condition": "delete-replace"}
    assert told(step("replace", MEMBER, old=bound, new=bare, diff=diff), kind="access-widened")
    assert told(step("replace", MEMBER, old=bare, new=bound, diff=diff), kind="access-widened") == []
