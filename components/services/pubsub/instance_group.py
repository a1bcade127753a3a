"""One rung of a queue: a managed instance group with its template and autoscaler."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from tidemill.capacity import most_machines, slots
from tidemill.machines import family
from tidemill.services import pubsub

from ...config import Queue, Rung
from ...machines import MachineType

IMAGES = {
    "x86_64": "projects/cos-cloud/global/images/family/cos-stable",
    "arm64": "projects/cos-cloud/global/images/family/cos-arm64-stable",
}
"""By architecture. Source: https://cloud.google.com/container-optimized-os/docs/concepts/versioning"""
BACKLOG = "pubsub.googleapis.com/subscription/num_undelivered_messages"
STABILIZATION_SECONDS = 60
"""The autoscaler sizes the group for the largest backlog of this period. Its default, 600, would restart machines that
stopped because they were idle.
Source: https://cloud.google.com/compute/docs/autoscaler/understanding-autoscaler-decisions"""
DEFAULT_STABILIZATION_SECONDS = 600
"""Set explicitly: without it, a queue that changes to this value would keep its old one."""
BOOT_SECONDS = 120
MAX_UNAVAILABLE = 10
"""No update of this group is proactive, so the number changes nothing. It must be given: the provider sends 0 for each
limit that is not, and Compute refuses a policy of two zeros. A regional group wants at least the number of its zones,
four at most today.
Source: https://github.com/hashicorp/terraform-provider-google/issues/15202"""
EXTRA_DISK = "extra"
IN_USE_PAUSE_SECONDS = 10
IN_USE_TRIES = 12

_COMPUTE = "https://www.googleapis.com/compute/v1/"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""IAM, not scopes, limits the account.
Source: https://cloud.google.com/compute/docs/access/service-accounts#scopes_best_practice"""


@dataclass
class Fleet:
    """Settings and resources that the rungs of a queue share."""

    settings: Queue
    machines: Sequence[MachineType]
    """At most one type per family, the preferred one first."""
    user_data: pulumi.Input[str]
    subscription: gcp.pubsub.Subscription
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    external_address: bool
    service_account_email: pulumi.Input[str]
    labels: Mapping[str, pulumi.Input[str]] | None
    disk_key: pulumi.Input[str] | None
    zones: Sequence[str]
    """The zones that machines start in; empty for those that Compute Engine picks."""
    replace: bool
    after: Sequence[pulumi.Resource]

    @property
    def slots(self) -> int:
        """Items that run side by side on each machine, for every type."""
        return min(slots(pubsub.SERVICE, machine, self.settings.item) for machine in self.machines)


@dataclass
class RungResources:
    """The resources of a rung."""

    market: str
    manager: gcp.compute.RegionInstanceGroupManager
    autoscaler: gcp.compute.RegionAutoscaler


def instance_group(name: str, rung: Rung, fleet: Fleet, parent: pulumi.Resource, *, first: bool) -> RungResources:
    """Create a rung. Only the first scales by itself; a second one is off until the reconciler opens it."""
    manager = _manager(name, _template(name, rung, fleet, parent), fleet, parent)
    return RungResources(rung.market, manager, _autoscaler(name, rung, manager, fleet, parent, first=first))


def _template(name: str, rung: Rung, fleet: Fleet, parent: pulumi.Resource) -> gcp.compute.RegionInstanceTemplate:
    """The template of machines. A change makes a new template, which the group uses only for new machines."""
    first = fleet.machines[0]
    interface = gcp.compute.RegionInstanceTemplateNetworkInterfaceArgs(
        network=fleet.network,
        subnetwork=fleet.subnetwork,
        access_configs=[gcp.compute.RegionInstanceTemplateNetworkInterfaceAccessConfigArgs(network_tier="PREMIUM")]
        if fleet.external_address
        else None,
    )
    return gcp.compute.RegionInstanceTemplate(
        name,
        machine_type=first.type,
        guest_accelerators=_accelerators(first),
        disks=_disks(fleet, first),
        network_interfaces=[interface],
        scheduling=_scheduling(rung, first),
        reservation_affinity=_reservation(rung.reservation) if rung.reservation else None,
        service_account=gcp.compute.RegionInstanceTemplateServiceAccountArgs(
            email=fleet.service_account_email, scopes=[_SCOPE]
        ),
        shielded_instance_config=gcp.compute.RegionInstanceTemplateShieldedInstanceConfigArgs(
            enable_secure_boot=True, enable_vtpm=True, enable_integrity_monitoring=True
        ),
        metadata={
            "user-data": fleet.user_data,
            "enable-oslogin": "TRUE",
            "block-project-ssh-keys": "TRUE",
            # The workers write their own lines, into this stack's bucket.
            "google-logging-enabled": "false",
        },
        labels=fleet.labels,
        opts=pulumi.ResourceOptions(
            parent=parent,
            depends_on=fleet.after,
            hooks=pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"{name}-in-use", wait_for_group)]),
        ),
    )


async def wait_for_group(args: pulumi.ErrorHookArgs) -> bool:
    """True, after a pause, if the engine should retry deleting a replaced template because its group still uses it.

    The group got the new template just before.
    Source: https://github.com/hashicorp/terraform-provider-google/issues/1448
    """
    latest = args.errors[0] if args.errors else ""
    if args.failed_operation != "delete" or "already being used" not in latest:
        return False
    if len(args.errors) > IN_USE_TRIES:
        pulumi.log.error(
            f"{args.id} is still in use by its group, which already has a new template. Nothing is lost. Run "
            "`pulumi up` again when the machines of the old template have stopped; it then deletes the template."
        )
        return False
    pulumi.log.info(f"{args.name}: its group still uses it; retrying the delete in {IN_USE_PAUSE_SECONDS} s")
    await asyncio.sleep(IN_USE_PAUSE_SECONDS)
    return True


def _accelerators(machine: MachineType) -> list[gcp.compute.RegionInstanceTemplateGuestAcceleratorArgs] | None:
    """GPUs to attach; None if the type includes its GPUs, or has none."""
    if machine.attach is None:
        return None
    return [gcp.compute.RegionInstanceTemplateGuestAcceleratorArgs(type=machine.attach, count=machine.gpus)]


def _reservation(reservation: str) -> gcp.compute.RegionInstanceTemplateReservationAffinityArgs:
    """Machines start in this reservation or not at all.

    Source: https://cloud.google.com/compute/docs/instances/reservations-consume
    """
    return gcp.compute.RegionInstanceTemplateReservationAffinityArgs(
        type="SPECIFIC_RESERVATION",
        specific_reservation=gcp.compute.RegionInstanceTemplateReservationAffinitySpecificReservationArgs(
            key="compute.googleapis.com/reservation-name", values=[reservation]
        ),
    )


def _scheduling(rung: Rung, machine: MachineType) -> gcp.compute.RegionInstanceTemplateSchedulingArgs:
    """A reclaimed Spot machine stops and is not deleted.

    The group still lists a stopped machine, so the reconciler sees it, removes it and lowers the target size by one. It
    is undocumented how a group that does nothing on failure treats a deleted machine. No `maxRunDuration`: a machine
    powers itself off at its maximum age (ADR 34). A type that is sold by reservation alone is bound to it.
    Source: https://docs.cloud.google.com/compute/docs/instances/provisioning-models
    """
    spot = rung.market == "spot"
    bound = "reserved" in machine.markets and not spot
    return gcp.compute.RegionInstanceTemplateSchedulingArgs(
        provisioning_model="SPOT" if spot else "RESERVATION_BOUND" if bound else "STANDARD",
        preemptible=spot,
        automatic_restart=False,
        on_host_maintenance="TERMINATE",
        # Not allowed for a standard machine without a time limit.
        # Source: https://github.com/GoogleCloudPlatform/cluster-toolkit/issues/4435
        instance_termination_action="STOP" if spot else None,
    )


def _disks(fleet: Fleet, machine: MachineType) -> list[gcp.compute.RegionInstanceTemplateDiskArgs]:
    """Scratch is on the boot disk, as on AWS: it needs no formatting, and one disk's speed grows with its size."""
    disk = gcp.compute.RegionInstanceTemplateDiskArgs
    key = fleet.disk_key
    encrypted = (
        None if key is None else gcp.compute.RegionInstanceTemplateDiskDiskEncryptionKeyArgs(kms_key_self_link=key)
    )
    boot = disk(
        source_image=_boot(fleet, machine),
        boot=True,
        auto_delete=True,
        disk_type=_kind(machine),
        disk_size_gb=fleet.settings.disk_gib,
        disk_encryption_key=encrypted,
        labels=fleet.labels,
    )
    if not fleet.settings.gcp.extra_disk_gib:
        return [boot]
    extra = disk(
        device_name=EXTRA_DISK,
        boot=False,
        auto_delete=True,
        disk_type=_kind(machine),
        disk_size_gb=fleet.settings.gcp.extra_disk_gib,
        disk_encryption_key=encrypted,
        labels=fleet.labels,
    )
    return [boot, extra]


def _manager(
    name: str, template: gcp.compute.RegionInstanceTemplate, fleet: Fleet, parent: pulumi.Resource
) -> gcp.compute.RegionInstanceGroupManager:
    """A group that never changes machines itself: no redistribution, proactive updates, repairs or health checks.

    The autoscaler and the reconciler own its target size, so that is not an input.
    """
    return gcp.compute.RegionInstanceGroupManager(
        name,
        base_instance_name=name,
        versions=[gcp.compute.RegionInstanceGroupManagerVersionArgs(instance_template=template.id)],
        instance_flexibility_policy=_flexibility(fleet),
        distribution_policy_target_shape="BALANCED",
        distribution_policy_zones=list(fleet.zones) or None,
        update_policy=gcp.compute.RegionInstanceGroupManagerUpdatePolicyArgs(
            type="OPPORTUNISTIC",
            minimal_action="NONE",
            most_disruptive_allowed_action="NONE",
            instance_redistribution_type="NONE",
            max_surge_fixed=0,
            max_unavailable_fixed=MAX_UNAVAILABLE,
        ),
        instance_lifecycle_policy=gcp.compute.RegionInstanceGroupManagerInstanceLifecyclePolicyArgs(
            default_action_on_failure="DO_NOTHING"
        ),
        list_managed_instances_results="PAGINATED",
        wait_for_instances=False,
        opts=pulumi.ResourceOptions(parent=parent, protect=not fleet.replace),
    )


def _flexibility(fleet: Fleet) -> gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyArgs | None:
    """The types to use if the preferred one is not available, in order, with disks where the template's do not fit.

    Source: https://cloud.google.com/compute/docs/instance-groups/about-instance-flexibility
    """
    machines = fleet.machines
    if len(machines) == 1:
        return None
    selection = gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyInstanceSelectionArgs
    return gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyArgs(
        instance_selections=[
            selection(name=machine.family, machine_types=[machine.type], rank=rank, disks=_other_disks(fleet, machine))
            for rank, machine in enumerate(machines, start=1)
        ]
    )


def _other_disks(
    fleet: Fleet, machine: MachineType
) -> list[gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyInstanceSelectionDiskArgs] | None:
    """A type's disks; None where they are the template's, which has those of the preferred type."""
    first = fleet.machines[0]
    if (_boot(fleet, machine), _kind(machine)) == (_boot(fleet, first), _kind(first)):
        return None
    disk = gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyInstanceSelectionDiskArgs
    label = gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyInstanceSelectionDiskLabelArgs
    labels = [label(key=key, value=value) for key, value in (fleet.labels or {}).items()] or None
    sealed = gcp.compute.RegionInstanceGroupManagerInstanceFlexibilityPolicyInstanceSelectionDiskDiskEncryptionKeyArgs
    encrypted = None if fleet.disk_key is None else sealed(kms_key_self_link=fleet.disk_key)
    return [
        disk(
            source_image=_full_link(_boot(fleet, machine)) if each.boot else None,
            device_name=each.device_name,
            boot=each.boot,
            auto_delete=each.auto_delete,
            disk_type=each.disk_type,
            disk_size_gb=each.disk_size_gb,
            disk_encryption_key=encrypted,
            labels=labels,
        )
        for each in _disks(fleet, machine)
    ]


def _full_link(image: str) -> str:
    """An image's full link, which Compute Engine answers. The provider compares the text of a selection's image, so
    that any other form would be a change after each refresh."""
    return f"{_COMPUTE}{image}" if image.startswith("projects/") else image


def _boot(fleet: Fleet, machine: MachineType) -> str:
    return fleet.settings.machines.image or IMAGES[machine.architecture]


def _kind(machine: MachineType) -> str:
    return family("gcp", machine.family).disk


def _autoscaler(
    name: str,
    rung: Rung,
    manager: gcp.compute.RegionInstanceGroupManager,
    fleet: Fleet,
    parent: pulumi.Resource,
    *,
    first: bool,
) -> gcp.compute.RegionAutoscaler:
    """Sizes the group by the backlog: unacknowledged messages, including leased ones, per slots of a machine."""
    wanted = fleet.settings.gcp
    metric = gcp.compute.RegionAutoscalerAutoscalingPolicyMetricArgs(
        name=BACKLOG,
        filter=pulumi.Output.concat(
            'resource.type = pubsub_subscription AND resource.labels.subscription_id = "', fleet.subscription.name, '"'
        ),
        single_instance_assignment=fleet.slots,
    )
    by_itself = wanted.scale_in == "autoscaler"
    scaling = "ON" if by_itself else "ONLY_SCALE_OUT"
    policy = gcp.compute.RegionAutoscalerAutoscalingPolicyArgs(
        mode=scaling if first else "OFF",
        min_replicas=wanted.min_machines if first else 0,
        max_replicas=most_machines(pubsub.SERVICE, rung.max_cpus, fleet.settings.machines.size),
        cooldown_period=BOOT_SECONDS,
        stabilization_period=DEFAULT_STABILIZATION_SECONDS if by_itself else STABILIZATION_SECONDS,
        metrics=[metric],
    )
    # The reconciler opens and closes a second rung by its mode, which is therefore not drift.
    ignored = None if first else ["autoscalingPolicy.mode"]
    return gcp.compute.RegionAutoscaler(
        name,
        target=manager.id,
        autoscaling_policy=policy,
        opts=pulumi.ResourceOptions(parent=parent, ignore_changes=ignored),
    )
