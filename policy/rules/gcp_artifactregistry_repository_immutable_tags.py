"""A tag always names the same image, so that a queue's image cannot change.

Source: https://cloud.google.com/artifact-registry/docs/docker/troubleshoot#immutable-tags
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import HIGH, resource_rule
from .common.values import UNKNOWN, items, look
from .gcp_any_data_protect import REPOSITORY


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    immutable = look(args.props, "dockerConfig", "immutableTags")
    if look(args.props, "format") not in ("DOCKER", "docker") or immutable is UNKNOWN or immutable is True:
        return
    # No queue names images that a builder pushes under its own tags and deletes when they are old.
    policies = items(look(args.props, "cleanupPolicies"))
    if any(look(p, "action") == "DELETE" and look(p, "condition", "tagState") == "ANY" for p in policies):
        return
    yield (
        "dockerConfig.immutableTags is off: a tag that a queue names could be moved to another image. Set it to true."
    )


POLICY = resource_rule(
    __name__, REPOSITORY, violations=violations, description="Tags of image repositories are immutable.", severity=HIGH
)
