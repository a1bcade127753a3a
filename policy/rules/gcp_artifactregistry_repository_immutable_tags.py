"""A tag always names the same image, so that a queue's image cannot change.

Source: https://cloud.google.com/artifact-registry/docs/docker/troubleshoot#immutable-tags
"""

from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, look
from .gcp_any_data_protect import REPOSITORY, is_cache


@resource_rule("Tags of image repositories are immutable.", HIGH, REPOSITORY)
def violations(args: Resource) -> Violations:
    immutable = flag(look(args.props, "dockerConfig", "immutableTags"))
    if look(args.props, "format") not in ("DOCKER", "docker") or immutable is UNKNOWN or immutable is True:
        return
    # No queue names images that a builder pushes under its own tags and deletes when they are old.
    if not is_cache(args):
        what = "a tag that a queue names could be moved to another image"
        yield f"dockerConfig.immutableTags is off: {what}. Set it to true."
