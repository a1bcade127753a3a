"""Dangers that the review finds: the smallest preview that shows each, next to one that must not."""

import json

import pytest

from ops.review.build import build
from ops.review.document import parse
from ops.review.markdown import render
from ops.review.models import IdleCost, Money
from tests.ops.review_steps import TODAY, document, stack, step, told, urn

BUCKET = "aws:s3/bucket:Bucket"
ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
QUEUE = "aws:batch/jobQueue:JobQueue"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
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


def test_versioning_that_goes_is_told_on_both_clouds_unless_the_bucket_goes_with_it():
    setting = "aws:s3/bucketVersioning:BucketVersioning"
    on, off = ({"versioningConfiguration": {"status": status}} for status in ("Enabled", "Suspended"))
    said = [("high", "no longer keeps overwritten objects")]
    assert told_of(step("delete", setting, old=on), kind="state-expires") == said
    changed = step("update", setting, old=on, new=off, diff={"versioningConfiguration.status": "update"})
    assert told_of(changed, kind="state-expires") == said
    assert told_of(step("delete", setting, old=off), kind="state-expires") == []
    bucket, setting_of = step("delete", BUCKET, "b", old={}), {"bucket": [urn(BUCKET, "b")]}
    assert told_of(step("delete", setting, old=on, needs=setting_of), bucket, kind="state-expires") == []
    assert told_of(step("delete", setting, old=on), bucket, kind="state-expires") == said
    google = "gcp:storage/bucket:Bucket"
    kept, dropped = ({"versioning": {"enabled": each}} for each in (True, False))
    changed = step("update", google, old=kept, new=dropped, diff={"versioning.enabled": "update"})
    assert told_of(changed, kind="state-expires") == said
    assert told_of(step("delete", google, old=kept), kind="state-expires") == []


def test_a_cap_on_spot_prices_is_the_most_that_a_fleet_costs():
    resources = {"type": "SPOT", "maxVcpus": 8, "instanceTypes": ["c6i.2xlarge"]}
    old, new = ({"computeResources": resources | more} for more in ({}, {"bidPercentage": 30}))
    [fleet] = stack(step("update", ENVIRONMENT, old=old, new=new, diff={"computeResources": "update"})).fleets
    assert fleet.usd_hour_before == Money(0.25, 0.5, ())
    assert fleet.usd_hour_after == Money(0.25, 0.3, ())


def test_it_says_whether_protection_stops_the_engine():
    def lines(was, is_):
        found = step("replace", BUCKET, old={}, new={}, diff={"bucket": "update-replace"}, protect=(was, is_))
        return told(found, kind="state-lost")[0].details

    assert lines(True, True)[-1].startswith(
        "It is protected: the engine stops here. To give it up, set tidemill:allow: [p"
    )
    assert "It is not protected: `up` will do this." in lines(True, False)
    assert "It is not protected: `up` will do this." in lines(False, False)


def test_protection_that_is_lifted_shows_on_a_resource_that_does_not_change_otherwise():
    same = step("same", BUCKET, old={"bucket": "a"}, new={"bucket": "a"}, protect=(True, False))
    assert told_of(same, kind="protection-lifted") == [("critical", "is no longer protected")]
    kept = step("same", BUCKET, old={"bucket": "a"}, new={"bucket": "a"}, protect=(True, True))
    assert told(kept) == []
    forced = step("update", BUCKET, old={}, new={"forceDestroy": True}, diff={"forceDestroy": "add"})
    assert told_of(forced, kind="protection-lifted") == [
        ("critical", "may be deleted with its contents (forceDestroy)")
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
        assert found[0].details == ("Running jobs get 360 minutes, then they are killed.",)


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
        ("aws:ec2/securityGroup:SecurityGroup", {"ingress": UNKNOWN}, "high"),
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


def test_a_way_out_that_changes_is_told_by_what_machines_use():
    """The NAT gateway's own subnet is public, and no machine starts in it."""
    private, nat = (urn("aws:ec2/subnet:Subnet", name) for name in ("private", "nat"))
    closed = step("same", "aws:ec2/subnet:Subnet", "private", new={"mapPublicIpOnLaunch": False})
    steps = [
        closed,
        step("same", ENVIRONMENT, new={}, needs={"computeResources": [private]}),
        step("create", "aws:ec2/subnet:Subnet", "nat", new={"mapPublicIpOnLaunch": True}),
        step("create", "aws:ec2/natGateway:NatGateway", new={}, needs={"subnetId": [nat]}),
        step("delete", "aws:ec2/vpcEndpoint:VpcEndpoint", old={"vpcEndpointType": "Interface"}),
    ]
    assert told_of(*steps, kind="network-opened") == [("high", "egress is nat, was endpoints")]


def test_machines_that_stay_are_part_of_the_idle_cost():
    template, group, scaler = TEMPLATE, urn(GROUP, "g"), "gcp:compute/regionAutoscaler:RegionAutoscaler"
    machine = {"machineType": "n2-standard-16", "scheduling": {"provisioningModel": "SPOT"}}

    def scaled(least):
        return {"autoscalingPolicy": {"maxReplicas": 4, "minReplicas": least}}

    steps = [
        step("same", template, "t", new=machine),
        step("same", GROUP, "g", new={}, needs={"versions": [urn(template, "t")]}),
        step("update", scaler, "s", old=scaled(0), new=scaled(2), needs={"target": [group]}),
    ]
    seen = stack(*steps, cloud="gcp")
    assert seen.idle == (IdleCost("machine that stays in g", 0, 2, 365.0),)
    steps[2] = step("update", scaler, "s", old=scaled(0), new=scaled(UNKNOWN), needs={"target": [group]})
    assert stack(*steps, cloud="gcp").idle == ()


def test_a_file_system_is_part_of_the_idle_cost_at_an_unknown_price():
    seen = stack(step("create", "aws:efs/fileSystem:FileSystem", new={"encrypted": True}))
    assert seen.idle == (IdleCost("file system, for what it holds", 0, 1, None),)


def test_a_larger_file_system_on_gcp_is_seen_in_the_idle_cost():
    sides = [{"tier": "ZONAL", "fileShares": {"capacityGb": gib}} for gib in (1024, 2048)]
    seen = stack(step("update", "gcp:filestore/instance:Instance", old=sides[0], new=sides[1]), cloud="gcp")
    (row,) = seen.idle
    assert (row.what, row.count_before, row.count_after) == ("GiB of Filestore zonal", 1024, 2048)


def test_a_region_without_prices_is_unknown_and_never_free():
    """With the package's own table."""
    fleet = {"computeResources": {"type": "SPOT", "maxVcpus": 64, "instanceTypes": ["c7i.xlarge"]}}
    steps = [step("create", ENVIRONMENT, new=fleet), step("create", "aws:kms/key:Key", new={})]
    preview = parse(json.dumps(document(*steps, region="mars-north-1")), "preview.json")
    found = build([preview], TODAY)
    (row,) = found.stacks[0].fleets
    assert row.usd_hour_after == Money(None, None, ("c7i.xlarge",))
    assert found.stacks[0].idle[0].usd_month_each is None
    assert "none → unknown (1 machine type unknown)" in render(found)


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
        ("critical", "failed", "mandatory policies are violated: up would not run, and what follows may be incomplete"),
        ("high", "policy", "a, mandatory"),
        ("high", "waiver", "c: the waiver ended on 2026-11-20"),
        ("medium", "policy", "b, advisory"),
        ("medium", "waiver", "d is waived; the waiver ends soon, on 2026-11-21"),
        ("medium", "waiver", "e is waived; the waiver ends on 2027-01-31"),
    ]
    assert found[1].details == ("stop", "now")


def test_each_override_is_told_with_its_properties():
    given = {"b": {"tags": None}, "a": {"userData": "x", "monitoring": {"enabled": True}}}
    found = told(overrides=given)
    assert [(each.severity, each.kind, each.resource, each.title) for each in found] == [
        ("medium", "override", "a", "tidemill:overrides sets monitoring, userData"),
        ("medium", "override", "b", "tidemill:overrides sets tags"),
    ]
    assert found[0].details == ('monitoring: {"enabled": true}', 'userData: "x"')


@pytest.mark.parametrize(
    ("kind", "key"),
    [("gcp:compute/subnetwork:Subnetwork", "ipCidrRange"), ("aws:ec2/subnet:Subnet", "cidrBlock")],
)
def test_a_network_that_is_replaced_is_told(kind, key):
    old, new = {key: "10.0.0.0/20"}, {key: "10.1.0.0/20"}
    (found,) = told(step("replace", kind, old=old, new=new, diff={key: "update-replace"}), kind="jobs-interrupted")
    assert (found.severity, found.title) == ("high", "network is replaced: up fails half-way while machines are in it")
    assert f"Replaced because of {key}." in found.details


@pytest.mark.parametrize(
    ("kind", "state", "rests"),
    [
        ("tidemill:index:AwsSender$aws:scheduler/schedule:Schedule", {"state": "DISABLED"}, "no template is sent"),
        ("tidemill:index:GcpSender$gcp:cloudscheduler/job:Job", {"paused": True}, "no template is sent"),
        ("tidemill:index:GcpReconciler$gcp:cloudscheduler/job:Job", {"paused": True}, "machines that are dead stay"),
    ],
)
def test_a_scheduler_that_is_paused_is_told_with_what_rests(kind, state, rests):
    running = {"schedule": "0 2 * * *"}
    ((severity, title),) = told_of(step("update", kind, old=running, new=running | state), kind="work")
    assert severity == "high"
    assert rests in title
    assert told_of(step("update", kind, old=running | state, new=running | state), kind="work") == []


def test_a_sender_that_is_called_at_other_times_is_no_reconciler_that_runs_more_rarely():
    kind = "tidemill:index:GcpSender$gcp:cloudscheduler/job:Job"
    moved = step("update", kind, old={"schedule": "*/5 * * * *"}, new={"schedule": "0 2 * * *"})
    assert told_of(moved, kind="work") == []


def test_what_sends_jobs_is_compared_in_the_stack_file_and_low_in_a_new_stack():
    nightly = {"nightly": {"template": "tiles", "cron": "0 2 * * *"}}
    base = {"ref": "main", "commit": "main", "config": {"tidemill:team": "a"}}
    new = ("new: sends the template tiles at 0 2 * * * (UTC) without a person",)
    assert told_of(kind="work", config={"schedules": nightly}, base=base) == [("medium", *new)]
    made = step("create", "pulumi:pulumi:Stack", new={})
    assert told_of(made, kind="work", config={"schedules": nightly}) == [("low", *new)]
    assert told_of(kind="work", config={"schedules": nightly}) == []


@pytest.mark.parametrize(("cloud", "arrivals"), [("aws", "s3://new/"), ("gcp", "gs://new/")])
def test_the_senders_calls_are_part_of_the_idle_cost(cloud, arrivals):
    nightly = {"nightly": {"template": "tiles", "cron": "0 2 * * *"}}
    both = {"schedules": nightly, "arrivals": {"new": {"template": "tiles", "prefix": arrivals}}}
    base = {"ref": "main", "commit": "main", "config": {"tidemill:team": "a", "tidemill:schedules": nightly}}
    was, now = stack(cloud=cloud, config=both, base=base).idle
    assert (was.what, was.count_before, was.count_after) == ("sender's calls until now", 1, 0)
    assert (now.what, now.count_before, now.count_after) == ("sender's calls", 0, 1)
    assert 0 < (was.usd_month_each or 0) < (now.usd_month_each or 0)
    (same,) = stack(cloud=cloud, config={"schedules": nightly}, base=base).idle
    assert same == IdleCost("sender's calls", 1, 1, was.usd_month_each)
    (gone,) = stack(cloud=cloud, config={}, base=base).idle
    assert gone == IdleCost("sender's calls", 1, 0, was.usd_month_each)
    (unknown,) = stack(cloud=cloud, region=None, config=both).idle
    assert unknown.usd_month_each is None
    assert stack(cloud=cloud, config={"schedules": {"nightly": {"template": "tiles", "cron": "0 2 30 2 *"}}}).idle == ()
