"""Rules of a stack on AWS."""

from __future__ import annotations

import re
from collections.abc import Collection

from components import machines
from components.config.checks import common
from components.config.checks.bought import check_bought_on_aws
from components.config.checks.common import Path
from components.config.checks.file_systems import check_on_aws
from components.config.checks.images import STACKS_IMAGE, check_images
from components.config.checks.imports import check_aws_imports
from components.config.checks.narrowed import check_image, left_in
from components.config.checks.scratch import check_scratch
from components.config.errors import ConfigError, key_path, shown
from components.config.models import Budget, Logs, StackConfig, Store
from components.config.monitoring_models import Monitoring
from components.config.queue_models import Queue
from components.config.types import AMI, AWS_KEY, AWS_PRINCIPAL, AWS_RESERVATION, SNS_TOPIC
from tidemill.capacity import slots

LONGEST_NAME = 36
"""Team, hyphen and environment: what is left of IAM's 64 for a role's suffix and auto-naming.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

MOST_QUEUES_AND_IMAGES = 24
"""ARNs of up to 165 characters that fit a managed policy of 6,144 with its fixed statements. Source: as above."""

MOST_POLICIES = 6
"""Managed policies for submitters; IAM attaches 10 to a role, and theirs may have some already. Source: as above."""

MOST_OF_A_ROLE = 40
"""The same ARNs that fit a role's inline policies. Source: as above."""

MOST_INLINE = 10_240
"""Characters of all inline policies of a role together, whitespace not counted. Source: as above."""

_INLINE_FIXED = 1_500
"""Characters of the statements that every stack has, with the longest names."""

MOST_ENVIRONMENTS = 50
"""Compute environments of an account and region, and job queues as well.
Source: https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html"""

RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
"""What CloudWatch Logs accepts.
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""

_MOUNTS = ("file_system", "host", "efs", "s3")
_RESERVED_PREFIXES = ("sthree-", "amzn-s3-demo-")
"""Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""

_ECR_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/")
_SECRET = re.compile(
    r"arn:aws[a-z-]*:(secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+(:[^:\s]*){0,3}|ssm:[a-z0-9-]+:\d{12}:parameter/[\w./-]+)"
)
_ON_GCP = "only on GCP"


def check_stack(config: StackConfig) -> None:
    """Rules of a stack on AWS, except those of its queues."""
    _names(config)
    _other_clouds(config)
    check_logs(config.logs)
    check_budget(config.budget)
    check_monitoring(config.monitoring)
    _existing_network(config)
    check_aws_imports(config)
    check_on_aws(config)
    for key, image in config.worker_images.items():
        _worker(key, image)
    _size(config)
    _inline(config)


def _worker(key: str, image: str) -> None:
    """The worker's image must be in ECR: machines fetch it with their own role, without the ECS agent."""
    if not (STACKS_IMAGE.fullmatch(image) or _ECR_IMAGE.match(image)):
        raise ConfigError(
            key_path([key]),
            shown(image),
            "an image in ECR: registry:// (the stack's registry), shared:// (a shared one), or "
            "<account>.dkr.ecr.<region>.amazonaws.com/name@sha256:<64 hex digits>",
            "`make worker PUSH=REGISTRY` pushes it and prints the reference",
        )


def check_queue(config: StackConfig, path: Path, queue: Queue) -> None:
    """Rules of a queue on AWS."""
    common.refuse(path, queue, "gcp", _ON_GCP, "Remove it; aws has what only AWS has")
    check_images(config, path, queue)
    smallest = min(machine.cpus for machine in _machines(path, queue) if slots("aws", machine, queue.item))
    common.check_rungs(path, queue, smallest, "lower machines.cpus.min")
    check_bought_on_aws(path, queue, AWS_RESERVATION)
    common.check_secrets(
        path,
        queue,
        _SECRET,
        "the ARN of a Secrets Manager secret or an SSM parameter",
        "Put the secret into Secrets Manager and its ARN here",
    )
    common.check_mounts(path, queue, config, _MOUNTS)
    common.check_limits(path, queue)


def check_logs(logs: Logs) -> None:
    """Retention and archive must be possible with CloudWatch and Firehose."""
    if logs.retention_days not in RETENTION_DAYS:
        raise ConfigError(
            key_path(["logs", "retention_days"]),
            str(logs.retention_days),
            f"one of {', '.join(map(str, RETENTION_DAYS))}",
            Logs.model_fields["retention_days"].description or "",
        )
    if logs.archive == "bigquery":
        raise ConfigError(key_path(["logs", "archive"]), shown("bigquery"), "bucket; BigQuery is GCP's", "Take bucket")
    common.check_key(["logs"], logs, AWS_KEY, "the ARN of a KMS key")


def check_budget(budget: Budget | None) -> None:
    """The budget's keys are AWS's."""
    if budget is not None:
        common.refuse(["budget"], budget, "billing_account", _ON_GCP, "Remove it; an AWS account has its own budgets")


def check_monitoring(monitoring: Monitoring) -> None:
    """The keys are AWS's, and there is one way to tell people."""
    here = ["monitoring"]
    if monitoring.channels:
        common.refuse(here, monitoring, "channels", _ON_GCP, "Name an SNS topic in `topic`")
    common.check_topics(monitoring.job_channels, SNS_TOPIC, "the ARN of an SNS topic")
    if monitoring.topic and monitoring.notify:
        raise ConfigError(
            key_path([*here, "notify"]),
            shown(monitoring.notify),
            "nothing together with topic",
            "Subscribe these addresses to the topic, or leave the topic out",
        )
    if monitoring.stalled_minutes and monitoring.stalled_minutes % 5:
        raise ConfigError(
            key_path([*here, "stalled_minutes"]),
            str(monitoring.stalled_minutes),
            "a multiple of 5, the minutes between two looks of the alarm",
            "Round it up",
        )
    if monitoring.stalled_minutes and not monitoring.tells:
        raise ConfigError(
            key_path([*here, "stalled_minutes"]),
            str(monitoring.stalled_minutes),
            "only with notify or topic",
            "Say in notify who is to be told",
        )


def check_store(store: Store) -> None:
    """The store's keys are S3's."""
    common.refuse(["store"], store, "soft_delete_days", _ON_GCP, "Leave it out; versioning keeps what was overwritten")
    common.check_key(["store"], store, AWS_KEY, "the ARN of a KMS key")


def _other_clouds(config: StackConfig) -> None:
    described = "s3://bucket or s3://bucket/prefix/, without wildcards"
    for key, words in (("read", "What jobs may read"), ("write", "What jobs may read and write")):
        uris = getattr(config.data, key)
        common.check_values(["data", key], uris, lambda uri: uri.startswith("s3://"), described, words)
    check_store(config.store)
    common.check_values(
        ["access", "submitters"],
        config.access.submitters,
        AWS_PRINCIPAL.fullmatch,
        "the ARN of an IAM user or role, or arn:aws:iam::<account>:root",
        "Name a principal of AWS",
    )


def _existing_network(config: StackConfig) -> None:
    existing = config.network.existing
    if existing is None:
        return
    here = ["network", "existing"]
    for key in ("network", "subnetwork"):
        common.refuse(here, existing, key, _ON_GCP, "Name vpc_id and subnet_ids")
    common.check_all_set(here, existing, ("vpc_id", "subnet_ids"))


def _names(config: StackConfig) -> None:
    full = f"{config.team}-{config.environment}"
    if len(full) > LONGEST_NAME:
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            f"team and environment with at most {LONGEST_NAME - 1} characters together; these have {len(full) - 1}",
            "Shorten one of them; AWS limits the names of roles and buckets that are made from them",
        )
    if full.startswith(_RESERVED_PREFIXES):
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            f"a name that does not start with {' or '.join(_RESERVED_PREFIXES)}",
            "Rename the team; S3 reserves these prefixes of bucket names",
        )


def submitter_policies(config: StackConfig) -> list[list[str]]:
    """Names of the queues for each of the submitters' policies: as many as their ARNs allow."""
    policies: list[list[str]] = []
    room = 0
    for name, queue in config.queues.items():
        needed = 1 + len(queue.images)
        if needed > room:
            policies.append([])
            room = MOST_QUEUES_AND_IMAGES
        policies[-1].append(name)
        room -= needed
    return policies


def _size(config: StackConfig) -> None:
    rungs = sum(len(queue.capacity) for queue in config.queues.values())
    if rungs > MOST_ENVIRONMENTS:
        raise ConfigError(
            key_path(["queues"]),
            f"{rungs} rungs in all queues together",
            f"{MOST_ENVIRONMENTS} or less",
            "Leave rungs or queues out, or make a second stack in another region or account; each rung is a compute "
            "environment, and Batch has no more",
        )
    count = len(config.queues) + sum(len(queue.images) for queue in config.queues.values())
    if config.permission_boundary and count > MOST_OF_A_ROLE:
        raise ConfigError(
            key_path(["queues"]),
            f"{count} queues and images together",
            f"{MOST_OF_A_ROLE} or less with a permission_boundary",
            "Make a second stack; the submitter role names each of them and IAM limits what a role holds",
        )
    if len(submitter_policies(config)) > MOST_POLICIES:
        raise ConfigError(
            key_path(["queues"]),
            f"{count} queues and images together",
            f"about {MOST_POLICIES * MOST_QUEUES_AND_IMAGES} or less",
            "Make a second stack; the submitters' policies name each of them and IAM limits their length and number",
        )


def _inline(config: StackConfig) -> None:
    """The roles' inline policies must be small enough; IAM would refuse larger ones in the middle of an update."""
    queues = config.queues.values()
    mounted = {mount.s3 for queue in queues for mount in queue.mounts.values() if mount.s3}
    secrets = {arn for queue in queues for arn in queue.secrets.values()}
    references = {image.partition("@")[0] for queue in queues for image in queue.images.values()}
    in_ecr = {image for image in references if "://" in image or ".dkr.ecr." in image}
    images = in_ecr | set(config.registry.repositories)
    # Each secret is listed with and without the suffix that Secrets Manager gives it, each image's repository by ARN.
    starts = sum(2 * len(arn) + 13 for arn in secrets) + sum(110 + len(image) for image in images)
    data = [*config.data.read, *config.data.write]
    for key, what, needed in (
        ("queues", f"{len(secrets)} secrets and {len(images)} images", starts),
        ("data", f"{len(data)} buckets and prefixes", _data_size(config, data)),
        ("queues", f"{len(mounted)} mounted buckets and prefixes", _data_size(config, mounted)),
    ):
        if needed > MOST_INLINE - _INLINE_FIXED:
            raise ConfigError(
                key_path([key]),
                f"{what} with {needed} characters of names in all",
                f"what IAM takes for a role, about {MOST_INLINE - _INLINE_FIXED} characters",
                "Name prefixes or buckets that hold more, share secrets and images, or make a second stack",
            )


def _data_size(config: StackConfig, uris: Collection[str]) -> int:
    buckets = {uri.split("/")[2] for uri in uris}
    listed = sum(125 + len(bucket) for bucket in buckets)
    named = sum(14 + len(uri) + 4 + len(uri.split("/", 3)[-1] if uri.count("/") > 2 else "") for uri in uris)
    return listed + named + sum(130 + len(key) for key in config.data.kms_keys) if uris else 0


def _machines(path: Path, queue: Queue) -> list[machines.MachineType]:
    wanted, cpus = queue.machines, queue.machines.cpus
    common.check_families(path, queue, "aws")
    here = [*path, "machines", "cpus"]
    if cpus.min > cpus.max:
        raise ConfigError(
            key_path([*here, "min"]), str(cpus.min), f"max ({cpus.max}) or less", "Lower min or raise max"
        )
    common.check_kinds(path, queue, "aws")
    selected = machines.select(wanted.families, cpus.min, cpus.max)
    if not selected:
        known = machines.families()
        sizes = machines.sizes(machine for family in wanted.families for machine in known[family])
        raise ConfigError(
            key_path(here),
            f"{cpus.min} to {cpus.max} vCPUs",
            f"a range that holds one of {sizes}, the sizes of {', '.join(wanted.families)}",
            "Widen the range or add a family",
        )
    check_image(path, queue, AMI, "an id such as ami-0123456789abcdef0")
    selected = left_in(path, queue, selected)
    common.check_fit(path, queue, "aws", selected, "raise machines.cpus.max")
    check_scratch(path, queue, "aws", selected)
    return selected
