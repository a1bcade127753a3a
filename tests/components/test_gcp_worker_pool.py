"""A queue and its machines on GCP. Recording mocks prove what is requested, not that Google accepts it."""

import asyncio
from typing import Any

import pulumi
import pytest

from components.config import ConfigError
from components.gcp.member import Member
from components.services.pubsub import instance_group
from components.services.pubsub.worker_pool import GcpWorkerPool, GcpWorkerPoolArgs
from tests.components.recording import PROJECT_NUMBER, Recorder, run
from tests.components.stacks import IMAGE
from tests.fields import about

BOTH = [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 32}]
AGENT = f"serviceAccount:service-{PROJECT_NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
FULL = {
    "images": {"default": IMAGE},
    "capacity": [{"market": "spot", "max_cpus": 4000}],
    "machines": {"families": ["n2", "c3d"], "cpus": 16},
}


def pool(more: dict[str, Any] | None = None, grant: str | None = None, **settings: Any) -> Recorder:
    def program() -> None:
        args = {
            "queue": "cpu",
            "settings": {"images": {"default": IMAGE}, **settings},
            "image": IMAGE,
            "network": "network-link",
            "subnetwork": "subnetwork-link",
            "service_account_email": "worker@p.iam.gserviceaccount.com",
            "bucket": "store",
            "labels": {"tidemill-team": "vision"},
            **(more or {}),
        }
        made = GcpWorkerPool("q", GcpWorkerPoolArgs(**args))
        if grant:
            getattr(made, grant)(Member("human", "user:a@example.com"))

    return run(program)


def template(recorder: Recorder, name: str = "q-spot") -> dict[str, Any]:
    return recorder.one("compute.RegionInstanceTemplate", name).inputs


def test_what_a_queue_is_made_of():
    assert pool(capacity=BOTH).counts() == {
        "GcpWorkerPool": 1,
        "compute.RegionAutoscaler": 2,
        "compute.RegionInstanceGroupManager": 2,
        "compute.RegionInstanceTemplate": 2,
        "pubsub.Subscription": 2,
        "pubsub.SubscriptionIAMMember": 1,
        "pubsub.Topic": 2,
        "pubsub.TopicIAMMember": 1,
    }


def test_messages_are_kept_as_long_as_can_be_and_no_subscription_expires():
    made = pool()
    work = made.one("pubsub.Subscription", "q-work").inputs
    assert work == {
        "topic": "q-topic-id",
        "ackDeadlineSeconds": 120,
        "messageRetentionDuration": "2678400s",
        "expirationPolicy": {"ttl": ""},
        "deadLetterPolicy": {"deadLetterTopic": "q-dead-id", "maxDeliveryAttempts": 100},
        "retryPolicy": {"minimumBackoff": "10s", "maximumBackoff": "60s"},
        "labels": {"tidemill-team": "vision"},
    }
    dead = made.one("pubsub.Subscription", "q-dead").inputs
    assert dead == {
        key: value for key, value in work.items() if key not in ("deadLetterPolicy", "retryPolicy", "topic")
    } | {"topic": "q-dead-id", "ackDeadlineSeconds": 600}


def test_pubsub_itself_may_forward_dead_letters_and_no_machine_starts_before_that():
    made = pool()
    (publish,), (take,) = made.of("pubsub.TopicIAMMember"), made.of("pubsub.SubscriptionIAMMember")
    assert publish.inputs == {"topic": "q-dead-1a2b3c4", "role": "roles/pubsub.publisher", "member": AGENT}
    assert take.inputs == {"subscription": "q-work-1a2b3c4", "role": "roles/pubsub.subscriber", "member": AGENT}
    (first,) = made.of("compute.RegionInstanceTemplate")
    assert {publish.urn, take.urn} <= set(first.options["dependencies"])


def test_a_spot_machine():
    found = dict(template(pool(**FULL)))
    metadata = found.pop("metadata")
    assert metadata.pop("user-data").startswith("#cloud-config\n{")
    assert metadata == {"enable-oslogin": "TRUE", "block-project-ssh-keys": "TRUE", "google-logging-enabled": "false"}
    assert found == {
        "machineType": "n2-standard-16",
        "disks": [
            {
                "sourceImage": "projects/cos-cloud/global/images/family/cos-stable",
                "boot": True,
                "autoDelete": True,
                "diskType": "pd-balanced",
                "diskSizeGb": 150,
                "labels": {"tidemill-team": "vision"},
            }
        ],
        "networkInterfaces": [{"network": "network-link", "subnetwork": "subnetwork-link"}],
        "scheduling": {
            "provisioningModel": "SPOT",
            "preemptible": True,
            "automaticRestart": False,
            "onHostMaintenance": "TERMINATE",
            "instanceTerminationAction": "STOP",
        },
        "serviceAccount": {
            "email": "worker@p.iam.gserviceaccount.com",
            "scopes": ["https://www.googleapis.com/auth/cloud-platform"],
        },
        "shieldedInstanceConfig": {"enableSecureBoot": True, "enableVtpm": True, "enableIntegrityMonitoring": True},
        "labels": {"tidemill-team": "vision"},
    }


def test_machines_in_a_reservation_start_nowhere_else():
    capacity = [{"market": "spot", "max_cpus": 64}, {"market": "on_demand", "max_cpus": 64, "reservation": "held"}]
    made = pool(machines={"families": ["n2"], "cpus": 16}, capacity=capacity)
    first, second = (made.one("compute.RegionInstanceTemplate", f"q-{label}").inputs for label in ("spot", "on-demand"))
    assert "reservationAffinity" not in first
    assert second["reservationAffinity"] == {
        "type": "SPECIFIC_RESERVATION",
        "specificReservation": {"key": "compute.googleapis.com/reservation-name", "values": ["held"]},
    }


def test_the_age_limit_is_the_units_and_the_worker_leaves_before_it():
    """Not `maxRunDuration`: no page documents whether a group accepts one that stops a machine (ADR 34)."""
    found = template(pool(gcp={"max_age_hours": 24}))
    assert "maxRunDuration" not in found["scheduling"]
    assert "\\nRuntimeMaxSec=86400\\n" in found["metadata"]["user-data"]
    assert "AGE_SECONDS=85800\\n" in found["metadata"]["user-data"]


def test_no_address_unless_one_is_asked_for():
    assert "accessConfigs" not in template(pool())["networkInterfaces"][0]
    (interface,) = template(pool({"external_address": True}))["networkInterfaces"]
    assert interface["accessConfigs"] == [{"networkTier": "PREMIUM"}]


def test_an_extra_disk_beside_the_boot_disk():
    _, extra = template(pool(gcp={"extra_disk_gib": 500}))["disks"]
    assert extra == {
        "deviceName": "extra",
        "boot": False,
        "autoDelete": True,
        "diskType": "pd-balanced",
        "diskSizeGb": 500,
        "labels": {"tidemill-team": "vision"},
    }


def test_gpus_are_attached_where_the_type_brings_none():
    item = {"cpus": 2, "memory_mib": 4096, "gpus": 1}
    attached = template(pool(item=item, machines={"families": ["n1-t4"], "cpus": 4}))
    assert attached["guestAccelerators"] == [{"type": "nvidia-tesla-t4", "count": 1}]
    own = template(pool(item=item, machines={"families": ["g2"], "cpus": 4}))
    assert (own["machineType"], "guestAccelerators" in own) == ("g2-standard-4", False)


def test_the_group_touches_no_machine_by_itself():
    made = pool(**FULL)
    group = made.one("compute.RegionInstanceGroupManager")
    assert group.inputs == {
        "baseInstanceName": "q-spot",
        "versions": [{"instanceTemplate": "q-spot-id"}],
        "instanceFlexibilityPolicy": {
            "instanceSelections": [
                {"name": "n2", "machineTypes": ["n2-standard-16"], "rank": 1},
                {"name": "c3d", "machineTypes": ["c3d-standard-16"], "rank": 2},
            ]
        },
        "distributionPolicyTargetShape": "BALANCED",
        "updatePolicy": {
            "type": "OPPORTUNISTIC",
            "minimalAction": "NONE",
            "mostDisruptiveAllowedAction": "NONE",
            "instanceRedistributionType": "NONE",
            "maxSurgeFixed": 0,
            "maxUnavailableFixed": 10,
        },
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
        "listManagedInstancesResults": "PAGINATED",
        "waitForInstances": False,
    }
    # Its size belongs to the autoscaler and the reconciler, and there is no health check that could end a machine.
    assert not {"targetSize", "autoHealingPolicies", "name"} & group.inputs.keys()


def test_one_family_needs_no_flexibility():
    group = pool(machines={"families": ["n2"], "cpus": 16}).one("compute.RegionInstanceGroupManager")
    assert "instanceFlexibilityPolicy" not in group.inputs


def test_machines_by_the_backlog_from_zero():
    scaler = pool(**FULL).one("compute.RegionAutoscaler").inputs
    assert scaler == {
        "target": "q-spot-id",
        "autoscalingPolicy": {
            "mode": "ONLY_SCALE_OUT",
            "minReplicas": 0,
            "maxReplicas": 250,
            "cooldownPeriod": 120,
            "stabilizationPeriod": 60,
            "metrics": [
                {
                    "name": "pubsub.googleapis.com/subscription/num_undelivered_messages",
                    "filter": "resource.type = pubsub_subscription AND "
                    'resource.labels.subscription_id = "q-work-1a2b3c4"',
                    "singleInstanceAssignment": 16,
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("item", "slots"),
    [
        ({"cpus": 1, "memory_mib": 2048}, 16),
        ({"cpus": 5, "memory_mib": 2048}, 3),
        ({"cpus": 16, "memory_mib": 60000}, 1),
        # Of n2's three types with 16 vCPUs the one with the most memory.
        ({"cpus": 1, "memory_mib": 20000}, 6),
    ],
)
def test_a_machine_is_reckoned_to_take_as_many_chunks_as_it_has_slots(item, slots):
    scaler = pool(item=item, machines={"families": ["n2"], "cpus": 16}).one("compute.RegionAutoscaler").inputs
    (metric,) = scaler["autoscalingPolicy"]["metrics"]
    assert metric["singleInstanceAssignment"] == slots


def test_the_second_rung_is_off_and_its_mode_is_the_reconcilers():
    made = pool(capacity=BOTH)
    first = made.one("compute.RegionAutoscaler", "q-spot")
    second = made.one("compute.RegionAutoscaler", "q-on-demand")
    assert second.inputs["autoscalingPolicy"]["mode"] == "OFF"
    assert second.inputs["autoscalingPolicy"]["maxReplicas"] == 2
    assert second.options["ignore_changes"] == ["autoscalingPolicy.mode"]
    assert first.options["ignore_changes"] == []
    scheduling = template(made, "q-on-demand")["scheduling"]
    assert (scheduling["provisioningModel"], scheduling["preemptible"]) == ("STANDARD", False)


def test_a_queue_of_on_demand_machines_alone_scales_by_itself():
    policy = pool(capacity=[{"market": "on_demand", "max_cpus": 32}]).one("compute.RegionAutoscaler")
    assert policy.inputs["autoscalingPolicy"]["mode"] == "ONLY_SCALE_OUT"
    assert policy.options["ignore_changes"] == []


def test_machines_that_stay_are_of_the_first_rung():
    made = pool(capacity=BOTH, gcp={"min_machines": 2})
    minimum = {
        each.name: each.inputs["autoscalingPolicy"]["minReplicas"] for each in made.of("compute.RegionAutoscaler")
    }
    assert minimum == {"q-spot": 2, "q-on-demand": 0}
    assert "MIN_MACHINES=2\\n" in template(made)["metadata"]["user-data"]


def test_the_plain_autoscaler_is_a_visible_choice():
    policy = pool(gcp={"scale_in": "autoscaler"}).one("compute.RegionAutoscaler").inputs["autoscalingPolicy"]
    assert (policy["mode"], policy["stabilizationPeriod"]) == ("ON", 600)
    assert "busy" in (GcpWorkerPool.__doc__ or "").partition("scale_in: autoscaler")[2]


def test_what_is_protected():
    def protected(**more: Any) -> set[str]:
        return {made.kind for made in pool(more).resources if made.options["protect"]}

    group, messages = "compute.RegionInstanceGroupManager", {"pubsub.Topic", "pubsub.Subscription"}
    assert protected() == {group} | messages
    assert protected(replace=True) == messages
    assert protected(purge=True) == set()


def test_a_new_template_replaces_no_group():
    """The group is named automatically and refers to the template by its id alone, which it takes in place."""
    before, after = pool(scratch_gib=100), pool(scratch_gib=200)
    assert template(before) != template(after)
    same = "compute.RegionInstanceGroupManager"
    assert before.one(same).inputs == after.one(same).inputs


def hook(*errors: str, operation: str = "delete") -> pulumi.ErrorHookArgs:
    return pulumi.ErrorHookArgs(
        urn="u", id="t-1", name="t", type="gcp:compute/regionInstanceTemplate:RegionInstanceTemplate",
        failed_operation=operation, errors=list(errors),
    )  # fmt: skip


def test_a_template_that_its_group_still_uses_is_deleted_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(instance_group, "IN_USE_PAUSE_SECONDS", 0)
    monkeypatch.setattr(pulumi.log, "info", lambda _: None)
    (used,) = pool().one("compute.RegionInstanceTemplate").options["on_error"]
    assert used == "q-spot-in-use"
    in_use = (
        "Error 400: The instance_template resource 'x' is already being used by 'y', resourceInUseByAnotherResource"
    )
    ask = instance_group.wait_for_group
    assert asyncio.run(ask(hook(in_use))) is True
    assert asyncio.run(ask(hook("Error 403: denied", in_use))) is False
    assert asyncio.run(ask(hook(in_use, operation="create"))) is False
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "error", said.append)
    assert asyncio.run(ask(hook(*[in_use] * 13))) is False
    assert "Nothing is lost" in said[0]


def test_what_a_worker_may_do_with_the_queue():
    made = pool(grant="grant_work")
    (granted,) = [each for each in made.of("pubsub.SubscriptionIAMMember") if each.inputs["member"] != AGENT]
    assert granted.inputs == {
        "subscription": "q-work-1a2b3c4",
        "role": "roles/pubsub.subscriber",
        "member": "user:a@example.com",
    }
    assert len(made.of("pubsub.TopicIAMMember")) == 1


def test_what_a_submitter_may_do_with_the_queue():
    made = pool(grant="grant_submit")
    granted = {
        (each.inputs.get("topic") or each.inputs["subscription"], each.inputs["role"])
        for kind in ("pubsub.TopicIAMMember", "pubsub.SubscriptionIAMMember")
        for each in made.of(kind)
        if each.inputs["member"] != AGENT
    }
    assert granted == {
        ("q-topic-1a2b3c4", "roles/pubsub.publisher"),
        ("q-topic-1a2b3c4", "roles/pubsub.viewer"),
        ("q-work-1a2b3c4", "roles/pubsub.viewer"),
        ("q-dead-1a2b3c4", "roles/pubsub.viewer"),
        ("q-dead-1a2b3c4", "roles/pubsub.subscriber"),
    }


@pytest.mark.parametrize("grant", [None, "grant_work", "grant_submit"])
def test_nothing_of_compute_no_primitive_role_and_no_wildcard_for_anybody(grant):
    for made in pool(grant=grant, capacity=BOTH).resources:
        role = made.inputs.get("role", "roles/pubsub.x")
        assert role.startswith("roles/pubsub."), made.name
        assert not made.kind.startswith("projects."), made.name


def test_what_the_reconciler_is_told():
    fleet: list[dict[str, Any]] = []

    def program() -> None:
        settings = {"images": {"default": IMAGE}, "capacity": BOTH, "gcp": {"min_machines": 1}}
        args = GcpWorkerPoolArgs("cpu", settings, IMAGE, "n", "s", "w@p", "store")
        GcpWorkerPool("q", args).fleet.apply(fleet.append)

    run(program)
    group = {"per_machine": 16, "minimum": 0}
    assert fleet == [
        {
            "name": "cpu",
            "subscription": "q-work-1a2b3c4",
            "topic": "q-topic-id",
            "groups": [
                group | {"market": "spot", "manager": "q-spot-1a2b3c4", "autoscaler": "q-spot-1a2b3c4", "minimum": 1},
                group | {"market": "on_demand", "manager": "q-on-demand-1a2b3c4", "autoscaler": "q-on-demand-1a2b3c4"},
            ],
        }
    ]


def test_a_pool_alone_refuses_what_a_stack_would():
    with pytest.raises(ConfigError, check=about("tidemill:queues.cpu.gcp.idle_minutes", "0")):
        pool(gcp={"idle_minutes": 0})
    with pytest.raises(ConfigError, check=about("tidemill:queues.cpu.machines", "3 vCPUs of n2")):
        pool(machines={"families": ["n2"], "cpus": 3})
