"""Bindings, roles and conditions. It cannot prove how Google decides, only what its documentation says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from localcloud.gcp import iam
from localcloud.gcp.clock import Clock
from localcloud.gcp.condition import ConditionError, compiled
from localcloud.gcp.iam import Policy
from localcloud.gcp.resources import Resources
from localcloud.gcp.wire import RestError

WHO = "serviceAccount:worker@p.iam.gserviceaccount.com"
PROJECT = "cloudresourcemanager/projects/p"
TOPIC = "pubsub/projects/p/topics/t"
ALWAYS = 'resource.name != ""'
OBJECT = "storage/projects/_/buckets/b/objects/jobs/x/y"


def policy_of(at: str, role: str, member: str = WHO, **more: Any) -> tuple[Policy, Resources]:
    """A project with one binding."""
    resources = Resources()
    resources.put(PROJECT, {})
    resources.set_policy(at, {"bindings": [{"role": role, "members": [member], **more}], "etag": "a"})
    return Policy(resources, "p", Clock()), resources


def test_unknown_is_denied() -> None:
    policy, _ = policy_of(PROJECT, "roles/pubsub.publisher")
    assert policy.allows(WHO, "pubsub.topics.publish", TOPIC)
    assert not policy.allows(WHO, "pubsub.topics.delete", TOPIC)
    assert not policy.allows(WHO, "no.such.permission", TOPIC)
    assert not policy.allows("serviceAccount:another@p.iam.gserviceaccount.com", "pubsub.topics.publish", TOPIC)
    assert not policy.allows("", "pubsub.topics.publish", TOPIC)
    nothing, _ = policy_of(PROJECT, "roles/no.such.role")
    assert not nothing.allows(WHO, "pubsub.topics.publish", TOPIC)


@pytest.mark.parametrize(
    ("at", "asked", "allowed"),
    [
        (TOPIC, TOPIC, True),
        (TOPIC, "pubsub/projects/p/topics/other", False),
        ("storage/projects/_/buckets/b", OBJECT, True),
        ("storage/projects/_/buckets/other", OBJECT, False),
        (PROJECT, OBJECT, True),
        ("artifactregistry/projects/p/locations/l/repositories/r", "artifactregistry/projects/p/locations/l", False),
        ("secretmanager/projects/p/secrets/s", "secretmanager/projects/p/secrets/s/versions/1", True),
    ],
)
def test_a_grant_holds_for_what_lies_below(at: str, asked: str, allowed: bool) -> None:
    policy, _ = policy_of(at, "roles/owner")
    assert policy.allows(WHO, "any.thing.atAll", asked) is allowed


def test_everybody_includes_who_has_no_token() -> None:
    policy, _ = policy_of(TOPIC, "roles/pubsub.publisher", "allUsers")
    assert policy.allows("", "pubsub.topics.publish", TOPIC)
    known, _ = policy_of(TOPIC, "roles/pubsub.publisher", "allAuthenticatedUsers")
    assert not known.allows("", "pubsub.topics.publish", TOPIC)
    assert known.allows(WHO, "pubsub.topics.publish", TOPIC)


def test_a_custom_role_grants_until_it_is_deleted() -> None:
    policy, resources = policy_of(PROJECT, "projects/p/roles/mine")
    assert not policy.allows(WHO, "a.b.c", TOPIC)
    resources.put("iam/projects/p/roles/mine", {"includedPermissions": ["a.b.c"]})
    assert policy.allows(WHO, "a.b.c", TOPIC)
    resources.change("iam/projects/p/roles/mine", lambda role: role.update(deleted=True))
    assert not policy.allows(WHO, "a.b.c", TOPIC)


def test_a_disabled_role_grants_nothing() -> None:
    """https://cloud.google.com/iam/docs/creating-custom-roles#disabling-custom-role"""
    policy, resources = policy_of(PROJECT, "projects/p/roles/mine")
    resources.put("iam/projects/p/roles/mine", {"includedPermissions": ["a.b.c"], "stage": "BETA"})
    assert policy.allows(WHO, "a.b.c", TOPIC)
    resources.change("iam/projects/p/roles/mine", lambda role: role.update(stage="DISABLED"))
    assert not policy.allows(WHO, "a.b.c", TOPIC)


@pytest.mark.parametrize(("held", "allowed"), [("roles/viewer", True), ("roles/pubsub.viewer", False)])
def test_a_bucket_may_grant_to_whoever_views_the_project(held: str, allowed: bool) -> None:
    """https://cloud.google.com/storage/docs/access-control/iam#convenience-values"""
    bucket = "storage/projects/_/buckets/b"
    policy, resources = policy_of(PROJECT, held)
    resources.set_policy(
        bucket, {"bindings": [{"role": "roles/storage.objectViewer", "members": ["projectViewer:p"]}], "etag": "b"}
    )
    assert policy.allows(WHO, "storage.objects.get", f"{bucket}/objects/x") is allowed
    assert not policy.allows("user:other@example.com", "storage.objects.get", f"{bucket}/objects/x")


def test_bindings_add_up_and_a_condition_takes_nothing_away() -> None:
    """https://cloud.google.com/iam/docs/policies#inheritance"""
    never = {"expression": 'request.time < timestamp("2020-01-01T00:00:00Z")'}
    policy, resources = policy_of(TOPIC, "roles/pubsub.publisher", condition=never)
    assert not policy.allows(WHO, "pubsub.topics.publish", TOPIC)
    resources.set_policy(PROJECT, {"bindings": [{"role": "roles/pubsub.publisher", "members": [WHO]}], "etag": "b"})
    assert policy.allows(WHO, "pubsub.topics.publish", TOPIC)


def test_a_condition_on_objects() -> None:
    where = (
        'resource.name.startsWith("projects/_/buckets/b/objects/jobs/") || resource.name == "projects/_/buckets/b/x"'
    )
    listing = '|| api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("jobs/")'
    bucket = "storage/projects/_/buckets/b"
    policy, _ = policy_of(bucket, "roles/storage.objectUser", condition={"expression": f"{where} {listing}"})
    assert policy.allows(WHO, "storage.objects.get", OBJECT)
    assert not policy.allows(WHO, "storage.objects.get", "storage/projects/_/buckets/b/objects/out/x")
    assert not policy.allows(WHO, "storage.objects.list", bucket)
    given = {"storage.googleapis.com/objectListPrefix": "jobs/a"}
    assert policy.allows(WHO, "storage.objects.list", bucket, given)
    assert not policy.allows(WHO, "storage.objects.list", bucket, {"storage.googleapis.com/objectListPrefix": ""})


@pytest.mark.parametrize("asked", ["iam", "iam/roles", PROJECT, "compute/projects/p/zones/z/instances/i"])
def test_a_condition_is_asked_of_whatever_is_called(asked: str) -> None:
    expression = 'resource.type != "storage.googleapis.com/Object"'
    policy, _ = policy_of(PROJECT, "roles/owner", condition={"expression": expression})
    assert policy.allows(WHO, "any.thing.atAll", asked)
    assert not policy.allows(WHO, "any.thing.atAll", OBJECT)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ('resource.type == "storage.googleapis.com/Object"', True),
        ('resource.service != "storage.googleapis.com"', False),
        ('resource.name.endsWith("/x") && !(resource.name.startsWith("a"))', True),
        ('request.time < timestamp("2020-01-01T00:00:00Z")', False),
        ("resource.name.contains('objects') && (false_is_not_a_word.x == 'a')", None),
        ('resource.name.matches("a.*")', None),
        ('resource.name.startsWith("a"', None),
        ("resource.labels.a", None),
        ("", None),
    ],
)
def test_expressions(expression: str, answer: bool | None) -> None:
    values = {
        "resource.name": "projects/_/buckets/b/objects/x",
        "resource.type": "storage.googleapis.com/Object",
        "resource.service": "storage.googleapis.com",
        "request.time": time.time(),
        "api": {},
    }
    if answer is None:
        with pytest.raises(ConditionError):
            compiled(expression)
    else:
        assert compiled(expression)(values) is answer


def test_calls_and_refusals_are_counted() -> None:
    policy, _ = policy_of(TOPIC, "roles/pubsub.publisher")
    policy.check(WHO, "pubsub.topics.publish", TOPIC)
    with pytest.raises(
        RestError, match=r"'pubsub.topics.get' denied on resource 'pubsub/projects/p/topics/t'"
    ) as refused:
        policy.check(WHO, "pubsub.topics.get", TOPIC)
    assert (refused.value.code, refused.value.status) == (403, "PERMISSION_DENIED")
    with pytest.raises(RestError) as unknown:
        policy.check("", "pubsub.topics.get", TOPIC)
    assert unknown.value.code == 401
    counted = {(call["principal"], call["permission"], call["allowed"]): call["count"] for call in policy.calls({})}
    assert counted == {
        (WHO, "pubsub.topics.publish", True): 1,
        (WHO, "pubsub.topics.get", False): 1,
        ("", "pubsub.topics.get", False): 1,
    }
    assert [refusal["permission"] for refusal in policy.denied({})] == ["pubsub.topics.get"] * 2


@pytest.mark.parametrize(
    ("binding", "field"),
    [
        ({"role": "roles/pubsub.nothing", "members": []}, "role"),
        ({"role": "projects/p/roles/gone", "members": []}, "role"),
        ({"role": "roles/pubsub.viewer", "members": ["worker@p"]}, "members"),
        ({"role": "roles/pubsub.viewer", "members": [WHO]}, "members"),
        ({"role": "roles/pubsub.viewer", "members": [], "condition": {"expression": "maybe"}}, "condition"),
        ({"role": "roles/owner", "members": [], "condition": {"expression": ALWAYS}}, "condition"),
        ({"role": "roles/pubsub.viewer", "members": ["allUsers"], "condition": {"expression": ALWAYS}}, "condition"),
    ],
)
def test_a_policy_that_could_not_be_evaluated_is_refused(binding: dict[str, Any], field: str) -> None:
    policy, _ = policy_of(PROJECT, "roles/owner")
    with pytest.raises(RestError) as refused:
        policy.check_policy({"bindings": [binding]})
    assert refused.value.field == f"policy.bindings[0].{field}"


def test_machines_roles_hold_no_more_than_they_should() -> None:
    held = set().union(*(iam.roles()[f"roles/{name}"] for name in ("pubsub.subscriber", "logging.logWriter")))
    subscriber = {"pubsub.snapshots.seek", "pubsub.subscriptions.consume", "pubsub.topics.attachSubscription"}
    assert held == subscriber | {"logging.logEntries.create", "logging.logEntries.route"}
    assert not any(permission.startswith("compute.") for name in iam.roles() if name != "roles/owner"
                   for permission in iam.roles()[name])  # fmt: skip
