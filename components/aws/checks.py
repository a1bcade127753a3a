"""Rules of a stack on AWS."""

import re
from collections.abc import Sequence

from pydantic import BaseModel

from ..config.bootstrap_models import BootstrapConfig
from ..config.checks import common
from ..config.checks.file_systems import check_on_aws
from ..config.checks.images import STACKS_IMAGE
from ..config.checks.imports import check_aws_imports
from ..config.checks.personal_secrets import check_person
from ..config.checks.place import check_region
from ..config.checks.policies import check_policies
from ..config.errors import ConfigError, key_path, missing, shown
from ..config.models import Budget, Logs, StackConfig, Store
from ..config.monitoring_models import Monitoring
from ..config.network_models import NewNetwork
from ..config.registry_models import ECR, Images
from ..config.shared_models import SharedConfig
from ..config.types import AWS_KEY, AWS_PERSON, AWS_PRINCIPAL, SNS_TOPIC

LONGEST_NAME = 36
"""Team, hyphen and environment: what is left of IAM's 64 for a role's suffix and auto-naming.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

MOST_ENVIRONMENTS = 50
"""Compute environments of an account and region, and job queues as well.
Source: https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html"""

RETENTION_DAYS = (
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
)  # fmt: skip
"""Values that CloudWatch Logs accepts.
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""

_RESERVED_PREFIXES = ("sthree-", "amzn-s3-demo-")
"""Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html"""

_ECR_IMAGE = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/")
_ON_GCP = "only on GCP"


def check_stack(config: StackConfig) -> None:
    """Rules of a stack on AWS, except those of its queues."""
    _names(config)
    _other_clouds(config)
    check_logs(config.logs)
    check_budget(config.budget)
    check_monitoring(config.monitoring)
    _existing_network(config)
    _proxy(config)
    _mirrors(config)
    check_aws_imports(config)
    check_on_aws(config)
    for key, image in config.worker_images.items():
        _worker(key, image)
    _size(config)
    check_policies(config)
    allowed = "the ARN of an IAM user, or of a role session of IAM Identity Center"
    check_person(config.access, AWS_PERSON, allowed)


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


def check_shared(config: SharedConfig) -> None:
    """Rules of a shared stack on AWS."""
    check_new(config.network, ["network"])
    check_registry(config.registry)


def check_new(new: NewNetwork, path: Sequence[str]) -> None:
    """A new network's logs must be kept for a time that CloudWatch knows."""
    _retained([*path, "flow_logs_days"], new.flow_logs_days, NewNetwork)


def _retained(path: Sequence[str], days: int | None, model: type[BaseModel]) -> None:
    if days is not None and days not in RETENTION_DAYS:
        described = model.model_fields[path[-1]].description or ""
        raise ConfigError(key_path(path), str(days), f"one of {', '.join(map(str, RETENTION_DAYS))}", described)


def check_bootstrap(config: BootstrapConfig, region: str | None) -> None:
    """Rules of a bootstrap stack on AWS, in its region if that is known."""
    if config.services != BootstrapConfig.model_fields["services"].default:
        common.refuse([], config, "services", _ON_GCP, "Leave it out; AWS has no APIs to enable")
    if config.replica:
        check_region("aws", key_path(["replica"]), config.replica)
    if config.replica and region and (config.replica == region or _partition(config.replica) != _partition(region)):
        allowed = f"another region than {region}, in the same partition of AWS"
        raise ConfigError(key_path(["replica"]), shown(config.replica), allowed, "Name the region of the copy")
    if config.purge_replica and not config.replica:
        fix = "Remove it: the next replica would begin without protection"
        raise ConfigError(key_path(["purge_replica"]), "true", "true only with a replica", fix)


def _partition(region: str) -> str:
    """The start of the names of a partition's regions; S3 replicates only within a partition."""
    return next((start for start in ("cn-", "us-gov-") if region.startswith(start)), "")


def check_logs(logs: Logs) -> None:
    """Retention and archive must be possible with CloudWatch and Firehose."""
    _retained(["logs", "retention_days"], logs.retention_days, Logs)
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
    for key in ("no_machine_minutes", "stalled_minutes"):
        minutes = getattr(monitoring, key)
        if minutes and minutes % 5:
            allowed = "a multiple of 5, the minutes between two looks of the alarm"
            raise ConfigError(key_path([*here, key]), str(minutes), allowed, "Round it up")
        if minutes and not monitoring.tells:
            allowed = "only with notify or topic"
            raise ConfigError(key_path([*here, key]), str(minutes), allowed, "Say in notify who is to be told")


def check_registry(registry: Images) -> None:
    common.check_key(["registry"], registry, AWS_KEY, "the ARN of a KMS key")


def check_store(store: Store) -> None:
    common.refuse(["store"], store, "soft_delete_days", _ON_GCP, "Leave it out; versioning keeps what was overwritten")
    common.check_key(["store"], store, AWS_KEY, "the ARN of a KMS key")


def _other_clouds(config: StackConfig) -> None:
    common.check_data(config.data, "s3")
    common.check_key(["disks"], config.disks, AWS_KEY, "the ARN of a KMS key")
    common.refuse(["topics"], config.topics, "kms_key", _ON_GCP, "Leave it out; Batch has no topics")
    check_store(config.store)
    check_registry(config.registry)
    common.check_values(
        ["access", "submitters"],
        config.access.submitters,
        AWS_PRINCIPAL.fullmatch,
        "the ARN of an IAM user or role, or arn:aws:iam::<account>:root",
        "Name a principal of AWS",
    )


def _existing_network(config: StackConfig) -> None:
    common.check_one_network(config.network)
    if config.network.create is not None:
        check_new(config.network.create, ["network", "create"])
    existing = config.network.existing
    if existing is None:
        return
    here = ["network", "existing"]
    for key in ("network", "subnetwork"):
        common.refuse(here, existing, key, _ON_GCP, "Name vpc_id and subnet_ids")
    common.check_all_set(here, existing, ("vpc_id", "subnet_ids"))


def _proxy(config: StackConfig) -> None:
    """Of an existing network only its owner knows the endpoints; whoever asks them through a proxy is often refused."""
    if config.proxy is None or config.network.existing is None:
        return
    past = config.proxy.no_proxy
    here = ["proxy", "no_proxy"]
    if past is None:
        raise missing(
            key_path(here),
            "With an existing network, name the domains that its endpoints serve, such as us-west-2.amazonaws.com, "
            "or [] if it has none",
        )
    mounted = any(mount.s3 for queue in config.queues.values() for mount in queue.mounts.values())
    if mounted and not any("s3." in each or each.endswith("amazonaws.com") for each in past):
        raise ConfigError(
            key_path(here),
            shown(past),
            "the domain of S3 where queues mount s3 in an existing network: Mountpoint goes past the proxy",
            "Name s3.<region>.amazonaws.com, if the network has its endpoint, or leave the mounts out",
        )


def _mirrors(config: StackConfig) -> None:
    """A mirror in ECR is in an account and a region: without them machines would take it for one without login."""
    for host, mirror in config.mirrors.items():
        here = key_path(["mirrors", host])
        if match := ECR.match(mirror):
            check_region("aws", here, match["region"])
        elif ".dkr.ecr." in mirror.partition("/")[0]:
            allowed = "<account of 12 digits>.dkr.ecr.<region>.amazonaws.com, in China .amazonaws.com.cn"
            raise ConfigError(here, shown(mirror), allowed, "Correct the registry's host")


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
