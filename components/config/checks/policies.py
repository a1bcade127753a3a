"""Sizes of the IAM policies of a stack on AWS, which IAM would refuse in the middle of an update.

They are counted with the longest region of the partition `aws` and with automatic endings, so that the count is never
too small there; tests/components/test_policy_sizes.py compares it with the policies.
"""

from collections.abc import Collection, Iterable

import pulumi

from ..errors import ConfigError, key_path
from ..later import length, plain
from ..models import StackConfig
from ..queue_models import Queue
from ..registry_models import in_mirror
from .images import repository_of, shared_repository_of

MOST_MANAGED, MOST_INLINE, MOST_TRUST = 6_144, 10_240, 2_048
"""Characters of a managed policy, of all inline policies of a role together, and of a trust policy.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html"""

MOST_POLICIES = 6
"""Managed policies for submitters; IAM attaches 10 to a role, and theirs may have some already. Source: as above."""

MOST_QUEUES_AND_IMAGES = 24
"""ARNs in a submitters' policy. More would fit with short names, but a policy that others attached must stay."""

MOST_OF_A_ROLE = 40
"""The same ARNs where the submitter role holds its permissions itself, as it does with a boundary."""

_FIRST, _FURTHER, _ADVISE, _INLINE, _TRUST, _SENDER = 2_430, 200, 340, 1_500, 150, 2_000
"""Characters that every stack has, with the longest names: of the first of the submitters' policies, of each further
one, of the one with advice, of a role's inline policies, of a trust policy, and of the sender's inline policies."""

_OUTPUT = 128
"""Characters that an output counts as, which has no value yet. IAM has the last word."""
_STATEMENT = 250
"""Characters of a statement on a repository or topics, without those that are named one by one."""

_TEMPLATES = 400
"""Characters of the statement on templates and sends."""

_ARN = len("arn:aws:batch:ap-southeast-2:123456789012:job-definition/") + len('"",')
"""The longest start of an ARN in these policies."""


def check_policies(config: StackConfig) -> None:
    """Every policy of a stack must be small enough."""
    _check_submitters(config)
    _check_inline(config)
    _check_sender(config)
    _check_trust(config)


def submitter_policies(config: StackConfig) -> list[list[str]]:
    """Names of the queues for each of the submitters' policies: as many as fit. The first may have none."""
    policies: list[list[str]] = [[]]
    looks = _looks(config)
    characters = MOST_MANAGED - _FIRST - (0 if looks_apart(config) else looks)
    entries = MOST_QUEUES_AND_IMAGES
    for name, queue in config.queues.items():
        needed = _submit_size(config, name, queue)
        if needed > characters or 1 + len(queue.images) > entries:
            policies.append([])
            characters, entries = MOST_MANAGED - _FURTHER, MOST_QUEUES_AND_IMAGES
        policies[-1].append(name)
        characters -= needed
        entries -= 1 + len(queue.images)
    return policies


def looks_apart(config: StackConfig) -> bool:
    """True if the submitters' rights to look and to publish need a policy of their own."""
    return _looks(config) > MOST_MANAGED - _FIRST


def _submit_size(config: StackConfig, name: str, queue: Queue) -> int:
    stem = _ARN + len(f"{config.team}-{config.environment}-{name}") + len("-queue-1a2b3c4")
    return stem + sum(stem + len(f"-{image}:*") for image in queue.images)


def _images(config: StackConfig) -> set[str]:
    images = {image for queue in config.queues.values() for image in queue.images.values()}
    return images | set(config.worker_images.values())


def _named_repositories(config: StackConfig) -> Iterable[str]:
    """Names of the repositories that policies name one by one; those that the stack makes have one pattern."""
    namespace = f"shared-{(config.registry.shared or '').rpartition('/')[2]}"
    for name in {shared_repository_of(image) for image in _images(config)} - {None}:
        yield f"{namespace}/{name}"
    named = {repository_of(image) for image in _images(config)} | set(config.registry.repositories)
    yield from (target for name, target in config.imports.repositories.items() if name in named)


def _listed(names: Iterable[str]) -> int:
    return sum(_ARN + len(name) for name in names)


def _looks(config: StackConfig) -> int:
    """Characters of the statements with repositories, topics and templates, which only some stacks have."""
    topics = config.monitoring.job_channels.values()
    repositories = any("://" in image for image in _images(config)) or bool(config.registry.repositories)
    statements = _STATEMENT * (2 * repositories + bool(topics)) + _TEMPLATES * config.sends
    return statements + _listed(_named_repositories(config)) + sum(3 + length(topic, _OUTPUT) for topic in topics)


def _check_submitters(config: StackConfig) -> None:
    count = len(config.queues) + sum(len(queue.images) for queue in config.queues.values())
    policies = len(submitter_policies(config)) + looks_apart(config)
    if config.permission_boundary or config.access.personal_secrets:
        needed = sum(_submit_size(config, name, queue) for name, queue in config.queues.items())
        needed += _STATEMENT * config.access.personal_secrets
        needed += _FIRST + policies * _FURTHER + _ADVISE + _looks(config)
        if count > MOST_OF_A_ROLE or needed > MOST_INLINE:
            raise ConfigError(
                key_path(["queues"]),
                f"{count} queues and images, which take {needed} characters with all that submitters may,",
                f"{MOST_OF_A_ROLE} or less with a permission_boundary, and {MOST_INLINE} characters",
                "Make a second stack; the submitter role names each of them and IAM limits what a role holds",
            )
        return
    if policies > MOST_POLICIES:
        raise ConfigError(
            key_path(["queues"]),
            f"{count} queues and images, for which submitters need {policies} policies,",
            f"{MOST_POLICIES} policies, each with up to {MOST_QUEUES_AND_IMAGES} of them and {MOST_MANAGED} characters",
            "Make a second stack, or shorten names; IAM limits the length and number of a role's policies",
        )
    if (size := _looks(config)) > MOST_MANAGED:
        repositories, topics = len(list(_named_repositories(config))), len(config.monitoring.job_channels)
        raise ConfigError(
            key_path(["registry"]),
            f"{repositories} shared and imported repositories and {topics} topics with {size} characters in all",
            f"what IAM takes for a submitter's policy, {MOST_MANAGED} characters",
            "Use fewer repositories, or make a second stack",
        )


def _check_inline(config: StackConfig) -> None:
    queues = config.queues.values()
    mounted = {mount.bucket for queue in queues for mount in queue.mounts.values() if mount.bucket}
    secrets = {arn for queue in queues for arn in queue.secrets.values()}
    outside = {image.partition("@")[0] for image in _images(config) if ".dkr.ecr." in image}
    # Those in mirrors are named once more: the cache may fetch them.
    cached = (name for name in outside if in_mirror(config.mirrors, name))
    repositories = [*_named_repositories(config), *outside, *cached]
    topics = config.monitoring.job_channels.values()
    data = [*config.data.read, *config.data.write]
    # Each secret is listed with and without the suffix that Secrets Manager gives it.
    starts = sum(2 * length(arn, _OUTPUT) + 13 for arn in secrets) + _listed(repositories)
    jobs = _data_size(config, data) + sum(3 + length(topic, _OUTPUT) for topic in topics)
    for key, what, needed in (
        ("queues", f"{len(secrets)} secrets and {len(repositories)} repositories", starts),
        ("data", f"{len(data)} buckets and prefixes and {len(topics)} topics", jobs),
        ("queues", f"{len(mounted)} mounted buckets and prefixes", _data_size(config, mounted)),
    ):
        if needed > MOST_INLINE - _INLINE:
            raise ConfigError(
                key_path([key]),
                f"{what} with {needed} characters of names in all",
                f"what IAM takes for a role, about {MOST_INLINE - _INLINE} characters",
                "Name prefixes or buckets that hold more, share secrets and images, or make a second stack",
            )


def _check_sender(config: StackConfig) -> None:
    """The sender's role holds all its permissions itself."""
    if not config.sends:
        return
    sent = [*config.schedules.values(), *config.arrivals.values()]
    queues = {
        name: queue
        for name, queue in config.queues.items()
        if any(each.queues is None or name in each.queues for each in sent)
    }
    data, topics = [*config.data.read, *config.data.write], config.monitoring.job_channels.values()
    needed = _SENDER + sum(_submit_size(config, name, queue) for name, queue in queues.items())
    needed += _data_size(config, data) + sum(3 + length(topic, _OUTPUT) for topic in topics)
    needed += sum(_ARN + len(f"{config.team}-{config.environment}-{name}-q-1a2b3c4") for name in config.arrivals)
    if needed > MOST_INLINE:
        entries = len(queues) + sum(len(queue.images) for queue in queues.values())
        raise ConfigError(
            key_path(["schedules" if config.schedules else "arrivals"]),
            f"{entries} queues and images, {len(data)} buckets and prefixes and {len(topics)} topics, "
            f"with {needed} characters in all,",
            f"what IAM takes for the sender's role, {MOST_INLINE} characters",
            "Name the few `queues` that each schedule and arrival sends to, or prefixes that hold more",
        )


def _data_size(config: StackConfig, uris: Collection[pulumi.Input[str]]) -> int:
    known = plain(uris)
    buckets = {uri.split("/")[2] for uri in known}
    listed = sum(125 + len(bucket) for bucket in buckets)
    named = sum(14 + len(uri) + 4 + len(uri.split("/", 3)[-1] if uri.count("/") > 2 else "") for uri in known)
    named += (143 + 3 * _OUTPUT) * (len(uris) - len(known))
    return listed + named + sum(3 + length(key, _OUTPUT) for key in config.data.kms_keys) if uris else 0


def _check_trust(config: StackConfig) -> None:
    principals = config.access.submitters
    size = _TRUST + sum(length(each, _OUTPUT) + len('"", ') for each in principals)
    if size > MOST_TRUST:
        raise ConfigError(
            key_path(["access", "submitters"]),
            f"{len(principals)} principals with {size} characters in all",
            f"what IAM takes for a role's trust, {MOST_TRUST} characters",
            "Name one role that people assume, or the account's root, whose own IAM policies then decide",
        )
