"""One rung of a queue: a Batch compute environment, and the hooks that complete its replacement."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pulumi
import pulumi_aws as aws

from ...config import Rung

# Batch's own limit is 7200, the provider's is 360. After it an update of the environment kills running jobs.
UPDATE_MINUTES = 360

_STRATEGIES = {"spot": "SPOT_PRICE_CAPACITY_OPTIMIZED", "on_demand": "BEST_FIT_PROGRESSIVE"}
_TYPES = {"spot": "SPOT", "on_demand": "EC2"}

# Batch's answers while it still detaches the queue or disables the environment.
_PASSES = ("found existing jobqueue relationship", "resource is being modified")
# The provider's error when an update exceeds its timeout, and Batch's answer to another call meanwhile.
_TOO_LONG = ("timeout while waiting", "is being modified")
_LONGEST_WAIT_SECONDS = 600
_FIRST_WAIT_SECONDS = 5
_LONGEST_PAUSE_SECONDS = 60


@dataclass
class ComputeSettings:
    """Settings that the rungs of a queue share."""

    instance_types: Sequence[str]
    image_type: str
    launch_template: aws.ec2.LaunchTemplate
    instance_profile_arn: pulumi.Input[str]
    subnet_ids: pulumi.Input[list[str]]
    security_group_ids: Sequence[pulumi.Input[str]]
    placement_group: pulumi.Input[str] | None
    tags: Mapping[str, pulumi.Input[str]] | None
    protect: bool


def compute_environment(
    name: str, rung: Rung, settings: ComputeSettings, parent: pulumi.Resource
) -> aws.batch.ComputeEnvironment:
    """A rung. It has no service role: with the service-linked one most edits happen in place.

    Tags of machines come from the launch template, so that no tag can replace the environment. A draining rung is
    disabled: running jobs continue, Batch places no new ones and adds no machines. Its machines stay unchanged, because
    a change would stop them. It is not protected, because it is about to be removed.
    Sources: https://docs.aws.amazon.com/batch/latest/userguide/infrastructure-updates.html,
    https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateComputeEnvironment.html (state)
    """
    return aws.batch.ComputeEnvironment(
        name,
        type="MANAGED",
        state="DISABLED" if rung.drain else "ENABLED",
        compute_resources=aws.batch.ComputeEnvironmentComputeResourcesArgs(
            type=_TYPES[rung.market],
            allocation_strategy=_STRATEGIES[rung.market],
            bid_percentage=rung.max_price_percent,
            min_vcpus=0,
            max_vcpus=rung.max_cpus,
            instance_types=list(settings.instance_types),
            ec2_configurations=[
                aws.batch.ComputeEnvironmentComputeResourcesEc2ConfigurationArgs(image_type=settings.image_type)
            ],
            instance_role=settings.instance_profile_arn,
            launch_template=aws.batch.ComputeEnvironmentComputeResourcesLaunchTemplateArgs(
                launch_template_id=settings.launch_template.id,
                version=settings.launch_template.latest_version.apply(str),
            ),
            placement_group=settings.placement_group,
            security_group_ids=list(settings.security_group_ids),
            subnets=settings.subnet_ids,
        ),
        update_policy=aws.batch.ComputeEnvironmentUpdatePolicyArgs(
            job_execution_timeout_minutes=UPDATE_MINUTES, terminate_jobs_on_update=False
        ),
        tags=settings.tags,
        opts=pulumi.ResourceOptions(
            parent=parent,
            protect=settings.protect and not rung.drain,
            ignore_changes=["computeResources"] if rung.drain else None,
            hooks=pulumi.ResourceHookBinding(
                before_create=[_never_new(name)] if rung.drain else None,
                on_error=[_patient(asyncio.get_running_loop())],
            ),
        ),
    )


def refuse_to_make(args: pulumi.ResourceHookArgs) -> None:
    """Refuse to create a draining compute environment: Batch cannot create a disabled one.

    Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_CreateComputeEnvironment.html (state)
    """
    raise ValueError(
        f"{args.name} drains, but this stack does not have that compute environment yet, and Batch cannot create a "
        "disabled one. Remove the rung with `drain: true` from tidemill:queues.<name>.capacity."
    )


@lru_cache(maxsize=1)
def _patient(run: object) -> pulumi.ErrorHook:
    """One hook for all compute environments of a run: to register one takes as long as to register a resource."""
    return pulumi.ErrorHook("tidemill-relation", wait_for_relation)


def _never_new(name: str) -> pulumi.ResourceHook:
    return pulumi.ResourceHook(f"{name}-drains", refuse_to_make, pulumi.ResourceHookOptions(on_dry_run=True))


def pause_seconds(failures: int) -> int | None:
    """Seconds to wait after a number of failures: 5, 10, 20, 40, 60, 60 and so on; None after 10 minutes in all."""
    waited = sum(_pause(number) for number in range(1, failures))
    return _pause(failures) if waited < _LONGEST_WAIT_SECONDS else None


def _pause(number: int) -> int:
    return min(_FIRST_WAIT_SECONDS * 2 ** (number - 1), _LONGEST_PAUSE_SECONDS)


async def wait_for_relation(args: pulumi.ErrorHookArgs) -> bool:
    """True, after a pause, if the engine should retry deleting a replaced compute environment because Batch still
    relates it to the queue that has moved away. Also explains an update that took too long.

    Source: https://github.com/pulumi/pulumi-aws/issues/6233
    """
    latest = args.errors[0].lower() if args.errors else ""
    if args.failed_operation == "update" and any(message in latest for message in _TOO_LONG):
        pulumi.log.error(
            f"{args.id} is still updating. Batch continues on its own and gives jobs on the old machines up to "
            f"{UPDATE_MINUTES // 60} hours; the provider waits only 20 minutes. Nothing is lost. Run `pulumi up` again "
            "when `aws batch describe-compute-environments` shows the status VALID."
        )
        return False
    if args.failed_operation != "delete" or not any(message in latest for message in _PASSES):
        return False
    pause = pause_seconds(len(args.errors))
    if pause is None:
        pulumi.log.error(
            f"Batch still relates {args.id} to a job queue after {_LONGEST_WAIT_SECONDS // 60} minutes. The queue has "
            "already moved and nothing is lost. Run `pulumi up` again later; it deletes the old compute environment "
            "and replaces nothing."
        )
        return False
    pulumi.log.info(f"{args.name}: Batch has not released the job queue yet; retrying the delete in {pause} s")
    await asyncio.sleep(pause)
    return True
