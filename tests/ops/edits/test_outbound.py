"""Proxies, authorities and keys of machines in a review."""

import json
import re

import pytest

from components.outbound import proxy_variables
from components.services.batch.user_data import Way, user_data
from ops.review.markdown import render
from tests.ops.review_steps import reviewed, step, told, urn
from tests.tls_server import Authority

TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
LAUNCH = "aws:ec2/launchTemplate:LaunchTemplate"
PROXY = "http://proxy.example.com:3128"
COMPANY = Authority(name="Example CA").pem


def booted(*, proxy="", past="", certificates=""):
    """Inputs of the templates of both clouds, with what a stack's proxy and certificates make of them."""
    way = Way(proxy or None, past, certificates or None)
    variables = proxy_variables(proxy, past) if proxy else {}
    files = [{"content": "".join(f"{key}={value}\n" for key, value in variables.items())}, {"content": certificates}]
    text = "#cloud-config\n" + json.dumps({"write_files": files})
    return {LAUNCH: {"userData": user_data({}, way=way)}, TEMPLATE: {"metadata": {"user-data": text}}}


@pytest.mark.parametrize("kind", [LAUNCH, TEMPLATE])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({}, {"proxy": PROXY}, [("medium", f"machines and jobs go through the proxy {PROXY}, were without")]),
        ({"proxy": PROXY}, {}, [("high", f"machines and jobs no longer go through the proxy {PROXY}")]),
        (
            {"proxy": PROXY, "past": "a.test,b.test"},
            {"proxy": PROXY, "past": "b.test,10.0.0.0/8"},
            [("medium", "goes past the proxy: 10.0.0.0/8"), ("medium", "goes through the proxy now: a.test")],
        ),
        ({"proxy": PROXY}, {"proxy": PROXY}, []),
        (
            {},
            {"certificates": COMPANY},
            [("high", "machines and jobs trust Example CA: whoever has its key can read and change their TLS traffic")],
        ),
        (
            {"certificates": COMPANY},
            {},
            [("medium", "machines and jobs no longer trust Example CA: what it signed is refused")],
        ),
    ],
)
def test_another_way_out_is_told(kind, old, new, said):
    op = "update" if kind == LAUNCH else "replace"
    changed = [
        step(op, kind, name, old=booted(**old)[kind], new=booted(**new)[kind], diff={"metadata": "update"})
        for name in ("a", "b")
    ]
    found = told(*changed, kind="network-opened")
    assert [(finding.severity, finding.title) for finding in found] == said
    assert all(finding.details == ("a", "b") for finding in found)


def test_a_boot_script_that_is_known_after_up_is_told():
    """A file system that is made in the same change would hide an authority."""
    before, unknown = booted(proxy=PROXY)[LAUNCH], {"userData": UNKNOWN}
    (found,) = told(step("update", LAUNCH, old=before, new=unknown), kind="network-opened")
    assert (found.severity, found.title[:47]) == ("high", "the machines' start is known after up, and with")
    assert told(step("create", LAUNCH, new=unknown), kind="network-opened") == []


@pytest.mark.parametrize("kind", [LAUNCH, TEMPLATE])
def test_the_template_of_a_new_queue_is_compared_with_those_that_stood(kind):
    """Whoever gives all queues new names at once makes new templates alone."""
    before, after = booted(proxy=PROXY)[kind], booted(proxy=PROXY, certificates=COMPANY)[kind]
    gone, same = step("delete", kind, "a", old=before), step("create", kind, "b", new=before)
    assert told(gone, same, kind="network-opened") == []
    new = step("create", kind, "b", new=after)
    (found,) = told(gone, new, kind="network-opened")
    assert (found.severity, found.title[:39]) == ("high", "machines and jobs trust Example CA: who")
    assert told(new, kind="network-opened") == []


@pytest.mark.parametrize("name", ["a\nb <img src=x> [x](http://x.test) @team", "\x1b[31mred"])
def test_the_name_of_an_authority_is_text_alone(name):
    """Whoever makes the certificate chooses it."""
    kind = LAUNCH
    change = step("update", kind, old=booted()[kind], new=booted(certificates=Authority(name=name).pem)[kind])
    shown = render(reviewed(change))
    assert "machines and jobs trust" in shown
    assert not re.search(r"<img|\]\(http|\x1b|(?<!`)@team", shown)


OWN = {
    LAUNCH: "arn:aws:kms:us-west-2:123456789012:key/0a",
    TEMPLATE: "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k",
}


def sealed(kind, key):
    """Inputs of a template whose disks have a key, or none."""
    if kind == LAUNCH:
        return {"blockDeviceMappings": [{"ebs": {"encrypted": "true", **({"kmsKeyId": key} if key else {})}}]}
    return {"disks": [{"boot": True, **({"diskEncryptionKey": {"kmsKeySelfLink": key}} if key else {})}]}


@pytest.mark.parametrize("kind", [LAUNCH, TEMPLATE])
def test_a_key_of_disks_that_goes_is_told(kind):
    op = "update" if kind == LAUNCH else "replace"
    lost = step(op, kind, old=sealed(kind, OWN[kind]), new=sealed(kind, None), diff={"disks": "update"})
    (found,) = told(lost, kind="protection-lifted")
    assert (found.severity, found.title) == ("high", "disks of new machines are no longer encrypted with your key")
    assert told(step("delete", kind, old=sealed(kind, OWN[kind])), kind="protection-lifted") == []


@pytest.mark.parametrize("kind", [LAUNCH, TEMPLATE])
def test_a_key_of_ones_own_for_disks_says_whom_it_has_to_admit(kind):
    op = "update" if kind == LAUNCH else "replace"
    given = step(op, kind, old=sealed(kind, None), new=sealed(kind, OWN[kind]), diff={"disks": "update"})
    (found,) = [each for each in told(given, kind="jobs-interrupted") if "another key" in each.title]
    assert found.severity == "medium"
    assert OWN[kind] in found.details[0]
    made = step(op, kind, old=sealed(kind, None), new=sealed(kind, UNKNOWN), diff={"disks": "update"})
    assert not [each for each in told(made, kind="jobs-interrupted") if "another key" in each.title]


def test_a_key_of_messages_that_goes_is_told():
    topic = "gcp:pubsub/topic:Topic"
    lost = step("update", topic, old={"kmsKeyName": OWN[TEMPLATE]}, new={}, diff={"kmsKeyName": "delete"})
    assert [each.severity for each in told(lost, kind="protection-lifted")] == ["high"]


def test_another_gateway_of_a_zone_is_told():
    association = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    old, new = ({"subnetId": "subnet-1", "routeTableId": table} for table in ("rtb-1", "rtb-2"))
    moved = step("update", association, old=old, new=new, diff={"routeTableId": "update"})
    (found,) = told(moved, kind="network-opened")
    assert (found.severity, found.title.partition(":")[0]) == ("medium", "machines of a zone get another way out")


def test_flow_logs_that_end_are_told_unless_their_network_goes():
    flows, vpc, subnetwork = "aws:ec2/flowLog:FlowLog", "aws:ec2/vpc:Vpc", "gcp:compute/subnetwork:Subnetwork"
    ended = step("delete", flows, old={"vpcId": "vpc-1"}, needs={"vpcId": [urn(vpc, "v")]})
    said = [("high", "machines' connections are no longer logged")]
    assert [(each.severity, each.title) for each in told(ended, kind="protection-lifted")] == said
    assert told(ended, step("delete", vpc, "v", old={}), kind="protection-lifted") == []
    off = step("update", subnetwork, old={"logConfig": {"flowSampling": 0.5}}, new={}, diff={"logConfig": "delete"})
    assert [(each.severity, each.title) for each in told(off, kind="protection-lifted")] == said


REPLICATION = "aws:s3/bucketReplicationConfig:BucketReplicationConfig"


def copied(name, prefix, *, status="Enabled", bucket="arn:aws:s3:::replica", deletions="Disabled"):
    """A rule of a replication."""
    return {
        "id": name,
        "status": status,
        "filter": {"prefix": prefix},
        "destination": {"bucket": bucket},
        "deleteMarkerReplication": {"status": deletions},
    }


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([copied("states", "stacks/")], ["new objects under history/ are no longer copied to the replica"]),
        (
            [copied("states", "stacks/", status="Disabled"), copied("history", "history/")],
            ["new objects under stacks/ are no longer copied to the replica"],
        ),
        (
            [copied("states", "stacks/tidemill/"), copied("history", "history/")],
            ["new objects under stacks/ are no longer copied to the replica"],
        ),
        (
            [copied("states", "stacks/", deletions="Enabled"), copied("history", "history/")],
            ["deletions are copied to the replica: it no longer has what is lost"],
        ),
        (
            [copied("states", "stacks/", bucket="arn:aws:s3:::other"), copied("history", "history/")],
            ["new objects under stacks/ are copied to arn:aws:s3:::other, were to arn:aws:s3:::replica"],
        ),
        (
            [copied("states", "stacks/", status="Disabled")],
            [f"new objects under {folder} are no longer copied to the replica" for folder in ("history/", "stacks/")],
        ),
        ([copied("states", "stacks/", bucket=UNKNOWN), copied("history", "history/")], []),
        ([copied("states", ""), copied("history", "history/")], []),
        (UNKNOWN, []),
    ],
)
def test_a_replication_that_copies_less_or_elsewhere_is_told(rules, said):
    old = {"bucket": "state", "rules": [copied("states", "stacks/"), copied("history", "history/")]}
    changed = step("update", REPLICATION, old=old, new={"bucket": "state", "rules": rules}, diff={"rules": "update"})
    assert [(each.severity, each.title) for each in told(changed, kind="state-expires")] == [
        ("high", title) for title in said
    ]


def test_a_replication_that_ends_is_told():
    ended = step("delete", REPLICATION, old={"bucket": "state", "rules": [copied("states", "stacks/")]})
    said = [("high", "new objects are no longer copied to the replica")]
    assert [(each.severity, each.title) for each in told(ended, kind="state-expires")] == said
