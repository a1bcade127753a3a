"""Rules of a stack on GCP."""

import re
from collections.abc import Sequence

from ..config.bootstrap_models import BootstrapConfig
from ..config.checks import common
from ..config.checks.file_systems import check_on_gcp
from ..config.checks.images import repository_of, shared_repository_of
from ..config.checks.imports import check_gcp_imports
from ..config.checks.personal_secrets import check_person
from ..config.errors import ConfigError, key_path, shown
from ..config.models import Budget, Logs, StackConfig, Store
from ..config.monitoring_models import Monitoring
from ..config.network_models import NewNetwork
from ..config.registry_models import ECR, Images
from ..config.shared_models import SharedConfig
from ..config.types import GCP_KEY, GCP_PERSON, GCP_PRINCIPAL, TOPIC

LONGEST_QUEUE = 40
"""Team, environment and queue with their hyphens: what is left of Compute Engine's 63 for a suffix and auto-naming.
Source: https://cloud.google.com/compute/docs/naming-resources"""

LONGEST_PIPELINE = 26
"""Team, hyphen and environment: what is left of a Cloud Run service's 49 for `-reconciler-run` and auto-naming.
Source: https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services/create"""

MOST_RETENTION_DAYS = 3650
"""Source: https://cloud.google.com/logging/quotas"""

MOST_CHANNELS = 5
"""Notification channels of a budget.
Source: https://cloud.google.com/billing/docs/reference/budget/rest/v1/billingAccounts.budgets"""

_KEY = "projects/p/locations/l/keyRings/r/cryptoKeys/k"

_GOOGLE_IMAGES = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev/|([a-z]+\.)?gcr\.io/")
_ARTIFACTS = re.compile(r"[a-z0-9-]+-docker\.pkg\.dev/[^/]+/[^/]+(/.+)?")
_GRANTS = "its grants are resources with its name"
_ON_AWS = "only on AWS"


def check_stack(config: StackConfig) -> None:
    """Rules of a stack on GCP, except those of its queues."""
    _names(config)
    _other_clouds(config)
    _network(config)
    check_logs(config.logs)
    check_budget(config.budget)
    check_monitoring(config.monitoring)
    check_gcp_imports(config)
    check_person(config.access, GCP_PERSON, "user: and an address")
    _mirrors(config)
    for key, image in config.worker_images.items():
        check_reachable(config, [key], image)


def _mirrors(config: StackConfig) -> None:
    """A mirror must be one that machines on GCP can log in to, or that needs no login."""
    for host, mirror in config.mirrors.items():
        if ECR.match(mirror) or (_GOOGLE_IMAGES.match(f"{mirror}/") and not _ARTIFACTS.fullmatch(mirror)):
            raise ConfigError(
                key_path(["mirrors", host]),
                shown(mirror),
                "<region>-docker.pkg.dev/<project>/<repository>, or a registry without login; machines on GCP have "
                "none for ECR",
                "Make a remote repository in Artifact Registry",
            )


def check_shared(config: SharedConfig) -> None:
    hint = "Leave it out; a subnetwork spans its region's zones, and Private Google Access all of its services"
    common.refuse(["network"], config.network, "extra_endpoints", _ON_AWS, hint)
    check_new(config.network, ["network"])
    hint = "Leave it out; push images of any name to the stack's one repository"
    common.refuse(["registry"], config.registry, "repositories", _ON_AWS, hint)
    check_registry(config.registry)


def check_bootstrap(config: BootstrapConfig, _region: str | None) -> None:
    hint = "Leave it out; a bucket on GCP keeps its location: copy its objects elsewhere (docs/upgrading.md)"
    for key in ("replica", "purge_replica"):
        if getattr(config, key):  # the project has a default for both
            common.refuse([], config, key, _ON_AWS, hint)
    if config.service_linked_roles != BootstrapConfig.model_fields["service_linked_roles"].default:
        common.refuse([], config, "service_linked_roles", _ON_AWS, "Leave it out; services on GCP have agents")
    if config.ci:
        for key in ("provider_arn", "buckets"):
            common.refuse(["ci"], config.ci, key, _ON_AWS, "Leave it out; on GCP the project is the limit (docs/ci.md)")


def _names(config: StackConfig) -> None:
    full = f"{config.team}-{config.environment}"
    if len(full) > LONGEST_PIPELINE:
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            f"team and environment with at most {LONGEST_PIPELINE - 1} characters together; these have {len(full) - 1}",
            "Shorten one of them; Cloud Run limits the name of the reconciler's service that is made from them",
        )
    for queue in config.queues:
        name = f"{full}-{queue}"
        if len(name) > LONGEST_QUEUE:
            raise ConfigError(
                key_path(["queues", queue]),
                shown(queue),
                f"team, environment and queue with at most {LONGEST_QUEUE - 2} characters together; these have "
                f"{len(name) - 2}",
                "Shorten one of them; Compute Engine limits the names that are made from them",
            )
    if full.startswith("goog") or "google" in full:
        raise ConfigError(
            key_path(["team"]),
            shown(config.team),
            "names that do not start with goog and do not contain google",
            "Rename the team; Cloud Storage reserves these bucket names",
        )


def _other_clouds(config: StackConfig) -> None:
    common.check_data(config.data, "gs")
    for key in ("read", "write"):
        for index, uri in enumerate(getattr(config.data, key)):
            common.check_known(["data", key, index], uri, _GRANTS)
    hint = "Leave it out; Cloud Storage uses a bucket's key by itself"
    common.refuse(["data"], config.data, "kms_keys", _ON_AWS, hint)
    hint = "Leave it out; push images of any name to the stack's one repository"
    common.refuse(["registry"], config.registry, "repositories", _ON_AWS, hint)
    hint = "Leave it out; an organization policy or a deny policy bounds service accounts"
    common.refuse([], config, "permission_boundary", _ON_AWS, hint)
    check_on_gcp(config)
    common.check_key(["disks"], config.disks, GCP_KEY, _KEY)
    common.check_key(["topics"], config.topics, GCP_KEY, _KEY)
    check_store(config.store)
    check_registry(config.registry)
    common.check_values(
        ["access", "submitters"],
        config.access.submitters,
        GCP_PRINCIPAL.fullmatch,
        "user:, group: or serviceAccount: and an address, such as group:vision@example.com",
        "Name a principal of GCP",
    )
    for index, principal in enumerate(config.access.submitters):
        common.check_known(["access", "submitters", index], principal, _GRANTS)
    for name, topic in config.monitoring.job_channels.items():
        common.check_known(["monitoring", "job_channels", name], topic, _GRANTS)


def _network(config: StackConfig) -> None:
    common.check_one_network(config.network)
    new, existing = config.network.create, config.network.existing
    if new is not None:
        check_new(new, ["network", "create"])
    if existing is None:
        return
    here = ["network", "existing"]
    for key in ("vpc_id", "subnet_ids"):
        common.refuse(here, existing, key, _ON_AWS, "Name network and subnetwork")
    common.check_all_set(here, existing, ("network", "subnetwork"))
    for key in ("network", "subnetwork") if config.file_systems else ():
        common.check_known([*here, key], getattr(existing, key), "where a file system is made follows from it")


def check_new(new: NewNetwork, path: Sequence[str]) -> None:
    """A new network has no keys that only AWS has."""
    for key in ("zones", "zone_names"):
        common.refuse(path, new, key, _ON_AWS, "Leave it out; a subnetwork spans its region's zones")
    if new.flow_logs_days is not None and new.flow_logs_days > MOST_RETENTION_DAYS:
        here = key_path([*path, "flow_logs_days"])
        raise ConfigError(here, str(new.flow_logs_days), f"1 to {MOST_RETENTION_DAYS}", "Lower it")
    common.refuse(path, new, "nat_per_zone", _ON_AWS, "Leave it out; Cloud NAT spans its region's zones")
    for key in ("ipam_pool", "netmask"):
        common.refuse(path, new, key, _ON_AWS, "Give the range in cidr")


def check_logs(logs: Logs) -> None:
    """Retention and key must be possible with Cloud Logging."""
    if logs.retention_days > MOST_RETENTION_DAYS:
        raise ConfigError(
            key_path(["logs", "retention_days"]),
            str(logs.retention_days),
            f"1 to {MOST_RETENTION_DAYS}",
            "Lower it, or set logs.archive",
        )
    common.check_key(["logs"], logs, GCP_KEY, _KEY)


def check_budget(budget: Budget | None) -> None:
    """A budget needs a billing account and at most as many addresses as Google allows."""
    if budget is None:
        return
    common.check_all_set(["budget"], budget, ("billing_account",))
    if len(budget.notify) > MOST_CHANNELS:
        raise ConfigError(
            key_path(["budget", "notify"]),
            f"{len(budget.notify)} addresses",
            f"at most {MOST_CHANNELS} on GCP",
            "Name a mailing list",
        )


def check_monitoring(monitoring: Monitoring) -> None:
    """The keys are Cloud Monitoring's."""
    here = ["monitoring"]
    common.refuse(here, monitoring, "topic", _ON_AWS, "Name notification channels in `channels`")
    hint = "Leave it out; the reconciler tells of work that has waited for 15 minutes without a machine"
    common.refuse(here, monitoring, "no_machine_minutes", _ON_AWS, hint)
    common.refuse(here, monitoring, "stalled_minutes", _ON_AWS, "Leave it out; the reconciler watches the workers")
    common.check_topics(monitoring.job_channels, TOPIC, "a topic such as projects/my-project/topics/ml-oncall")


def check_registry(registry: Images) -> None:
    common.check_key(["registry"], registry, GCP_KEY, _KEY)


def check_store(store: Store) -> None:
    common.check_key(["store"], store, GCP_KEY, _KEY)


def check_reachable(config: StackConfig, path: Sequence[str], image: str | None) -> None:
    """Machines without internet reach only Google's own registries."""
    new = config.network.create
    if image is None or new is None or new.egress != "endpoints":
        return
    stacks = repository_of(image) or shared_repository_of(image)
    if stacks is None and not _GOOGLE_IMAGES.match(image):
        raise ConfigError(
            key_path(path),
            shown(image),
            "registry://..., *-docker.pkg.dev/... or gcr.io/...: with network.create.egress endpoints machines reach "
            "only Google's registries",
            "Push the image to the stack's registry, or take egress nat",
        )
