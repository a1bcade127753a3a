"""What the review finds dangerous, by the smallest preview that shows it, beside one that must not."""

import json

import pytest

from tests.ops.review_steps import statement, step, told, urn

BUCKET = "aws:s3/bucket:Bucket"
ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
QUEUE = "aws:batch/jobQueue:JobQueue"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
MEMBER = "gcp:projects/iAMMember:IAMMember"
BOUND = {"Condition": {"Bool": {"a": "b"}}}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def told_of(*steps, kind, **other):
    """(severity, title) of the findings of a kind."""
    return [(finding.severity, finding.title) for finding in told(*steps, kind=kind, **other)]


@pytest.mark.parametrize(
    "kind",
    [
        BUCKET,
        "aws:ecr/repository:Repository",
        "aws:cloudwatch/logGroup:LogGroup",
        "aws:kms/key:Key",
        "gcp:storage/bucket:Bucket",
        "gcp:artifactregistry/repository:Repository",
        "gcp:logging/projectBucketConfig:ProjectBucketConfig",
        "gcp:bigquery/dataset:Dataset",
        "gcp:pubsub/subscription:Subscription",
        "gcp:pubsub/topic:Topic",
        "gcp:kms/cryptoKey:CryptoKey",
    ],
)
def test_state_that_goes_is_critical_whether_it_is_deleted_or_replaced(kind):
    gone = told(step("delete", kind, old={"name": "a"}), kind="state-lost")
    replaced = told(
        step("replace", kind, old={"name": "a"}, new={"name": "b"}, diff={"name": "update-replace"}), kind="state-lost"
    )
    assert [finding.severity for finding in (*gone, *replaced)] == ["critical", "critical"]
    assert "Replaced because of name." in replaced[0].details
    assert told(step("update", kind, old={"x": 1}, new={"x": 2}, diff={"x": "update"}), kind="state-lost") == []


def test_it_says_whether_protection_stops_the_engine():
    def lines(was, is_):
        found = step("replace", BUCKET, old={}, new={}, diff={"bucket": "update-replace"}, protect=(was, is_))
        return told(found, kind="state-lost")[0].details

    assert "It is protected: the engine stops here." in lines(True, True)
    assert "It is not protected: up does this." in lines(True, False)
    assert "It is not protected: up does this." in lines(False, False)


def test_protection_that_is_lifted_shows_on_a_resource_that_does_not_change_otherwise():
    same = step("same", BUCKET, old={"bucket": "a"}, new={"bucket": "a"}, protect=(True, False))
    assert told_of(same, kind="protection-lifted") == [("critical", "is protected no longer")]
    kept = step("same", BUCKET, old={"bucket": "a"}, new={"bucket": "a"}, protect=(True, True))
    assert told(kept) == []
    forced = step("update", BUCKET, old={}, new={"forceDestroy": True}, diff={"forceDestroy": "add"})
    assert told_of(forced, kind="protection-lifted") == [
        ("critical", "may be deleted with what is in it (forceDestroy)")
    ]


@pytest.mark.parametrize(
    ("kind", "path", "old", "new", "shorter"),
    [
        ("aws:cloudwatch/logGroup:LogGroup", "retentionInDays", 90, 14, True),
        ("aws:cloudwatch/logGroup:LogGroup", "retentionInDays", None, 14, True),
        ("aws:cloudwatch/logGroup:LogGroup", "retentionInDays", 14, 90, False),
        ("gcp:pubsub/subscription:Subscription", "messageRetentionDuration", "2678400s", "604800s", True),
        ("gcp:pubsub/subscription:Subscription", "messageRetentionDuration", "604800s", "2678400s", False),
        ("gcp:pubsub/subscription:Subscription", "messageRetentionDuration", "604800s", UNKNOWN, False),
    ],
)
def test_what_is_kept_for_a_shorter_time_is_told(kind, path, old, new, shorter):
    before = {} if old is None else {path: old}
    found = told(step("update", kind, old=before, new={path: new}, diff={path: "update"}), kind="state-expires")
    assert [finding.severity for finding in found] == (["high"] if shorter else [])


@pytest.mark.parametrize(
    ("path", "severity"),
    [
        ("computeResources.maxVcpus", None),
        ("computeResources.minVcpus", None),
        ("updatePolicy.jobExecutionTimeoutMinutes", None),
        ("tags.owner", None),
        ("computeResources.instanceTypes[3]", "high"),
        ("computeResources.launchTemplate.version", "high"),
        ("computeResources.subnets[0]", "high"),
        ("computeResources.allocationStrategy", "high"),
    ],
)
def test_an_infrastructure_update_is_one_of_the_properties_that_aws_says(path, severity):
    old = {"computeResources": {"maxVcpus": 8}, "updatePolicy": {"jobExecutionTimeoutMinutes": 360}}
    found = told(step("update", ENVIRONMENT, old=old, new=old, diff={path: "update"}), kind="jobs-interrupted")
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    if found:
        assert found[0].details == ("Running jobs get 360 minutes, then they end.",)


def test_an_update_without_a_detailed_diff_is_compared_here():
    old = {"computeResources": {"maxVcpus": 8, "subnets": ["a"]}}
    new = {"computeResources": {"maxVcpus": 8, "subnets": ["a", "b"]}}
    (found,) = told(step("update", ENVIRONMENT, old=old, new=new), kind="jobs-interrupted")
    assert "(subnets)" in found.title


@pytest.mark.parametrize("op", ["replace", "delete"])
@pytest.mark.parametrize("kind", [ENVIRONMENT, QUEUE, GROUP])
def test_what_runs_jobs_is_high_when_it_goes(op, kind):
    new = None if op == "delete" else {}
    (found,) = told(step(op, kind, old={}, new=new, diff={"name": "update-replace"}), kind="jobs-interrupted")
    assert found.severity == "high"


@pytest.mark.parametrize(
    ("path", "old", "new", "told_"),
    [
        ("updatePolicy.type", "OPPORTUNISTIC", "PROACTIVE", True),
        ("updatePolicy.instanceRedistributionType", "NONE", "PROACTIVE", True),
        ("instanceLifecyclePolicy.defaultActionOnFailure", "DO_NOTHING", "REPAIR", True),
        ("updatePolicy.type", "PROACTIVE", "OPPORTUNISTIC", False),
        ("updatePolicy.maxSurgeFixed", 1, 2, False),
    ],
)
def test_a_group_that_may_take_machines_that_work_is_told(path, old, new, told_):
    def nested(value):
        first, _, second = path.partition(".")
        return {first: {second: value}}

    found = told(
        step("update", GROUP, old=nested(old), new=nested(new), diff={path: "update"}), kind="jobs-interrupted"
    )
    assert bool(found) is told_


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


def test_a_denial_that_is_gone_is_wider_access():
    deny = statement("Deny", Action="s3:*", Resource="*", Condition={"Bool": {"aws:SecureTransport": "false"}})
    (found,) = told(policy(deny, json.dumps({"Statement": []})), kind="access-widened")
    assert (found.severity, found.title) == ("high", "policy takes away 1 denial")
    assert told(policy(json.dumps({"Statement": []}), deny), kind="access-widened") == []


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


@pytest.mark.parametrize(
    ("kind", "new", "severity"),
    [
        ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
         {"cidrIpv4": "0.0.0.0/0", "ipProtocol": "tcp", "fromPort": 22, "toPort": 22}, "critical"),
        ("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
         {"referencedSecurityGroupId": "sg-1", "ipProtocol": "-1"}, "high"),
        ("aws:ec2/securityGroup:SecurityGroup",
         {"ingress": [{"cidrBlocks": ["::/0"], "protocol": "tcp", "fromPort": 1, "toPort": 2}]}, "critical"),
        ("aws:ec2/securityGroupRule:SecurityGroupRule",
         {"type": "egress", "cidrBlocks": ["0.0.0.0/0"], "protocol": "-1"}, None),
        ("gcp:compute/firewall:Firewall",
         {"direction": "INGRESS", "allows": [{"protocol": "tcp", "ports": ["22"]}]}, "critical"),
        ("gcp:compute/firewall:Firewall",
         {"direction": "INGRESS", "allows": [{"protocol": "tcp"}], "sourceRanges": ["10.0.0.0/8"]}, "high"),
        ("gcp:compute/firewall:Firewall",
         {"direction": "INGRESS", "denies": [{"protocol": "all"}], "sourceRanges": ["0.0.0.0/0"]}, None),
    ],
)  # fmt: skip
def test_a_way_in_is_told(kind, new, severity):
    found = told(step("create", kind, new=new), kind="network-opened")
    assert [finding.severity for finding in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    "found",
    [
        step("delete", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", old={"blockPublicAcls": True}),
        step("update", "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock", old={"blockPublicAcls": True},
             new={"blockPublicAcls": False}, diff={"blockPublicAcls": "update"}),
        step("update", "gcp:storage/bucket:Bucket", old={"publicAccessPrevention": "enforced"},
             new={"publicAccessPrevention": "inherited"}, diff={"publicAccessPrevention": "update"}),
    ],
)  # fmt: skip
def test_a_bucket_that_opens_is_critical(found):
    assert [finding.severity for finding in told(found, kind="network-opened")] == ["critical"]


def test_a_subnet_of_a_nat_gateway_alone_gives_machines_no_address():
    subnets = {name: urn("aws:ec2/subnet:Subnet", name) for name in ("private", "nat")}
    steps = [
        step("create", "aws:ec2/subnet:Subnet", "private", new={"mapPublicIpOnLaunch": False}),
        step("create", "aws:ec2/subnet:Subnet", "nat", new={"mapPublicIpOnLaunch": True}),
    ]
    inside = step("create", ENVIRONMENT, new={}, needs={"computeResources": [subnets["private"]]})
    assert told(*steps, inside, kind="network-opened") == []
    outside = step("create", ENVIRONMENT, new={}, needs={"computeResources": [subnets["nat"]]})
    assert [finding.severity for finding in told(*steps, outside, kind="network-opened")] == ["low"]


def test_policies_and_waivers_are_told_with_their_days():
    policies = [
        {"rule": "b", "level": "advisory", "severity": None, "urn": urn(BUCKET, "it"), "message": "tell"},
        {"rule": "a", "level": "mandatory", "severity": None, "urn": urn(BUCKET, "it"), "message": "stop\nnow"},
    ]
    waivers = [
        {"rule": "c", "resource": None, "reason": "old", "until": "2026-11-20"},
        {"rule": "d", "resource": "it", "reason": "soon", "until": "2026-11-21"},
        {"rule": "e", "resource": "it", "reason": "later", "until": "2027-01-31"},
    ]
    found = told(policies=policies, waivers=waivers, exit_code=1)
    assert [(each.severity, each.kind, each.title) for each in found] == [
        ("critical", "failed", "mandatory policies are violated: up would not run, and what follows may not be whole"),
        ("high", "policy", "a, mandatory"),
        ("high", "waiver", "c: the waiver ended on 2026-11-20"),
        ("medium", "policy", "b, advisory"),
        ("medium", "waiver", "d is waived; this ends soon, on 2026-11-21"),
        ("medium", "waiver", "e is waived; this ends on 2027-01-31"),
    ]
    assert found[1].details == ("stop", "now")
