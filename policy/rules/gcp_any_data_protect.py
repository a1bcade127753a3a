"""Resources that hold data are protected: buckets, file systems, topics and subscriptions, images, log buckets, keys.

An image repository that deletes whatever is old, tagged or not, is a cache and holds nothing to keep. So is one that
only passes on the images of others.
Source: https://www.pulumi.com/docs/iac/concepts/resources/options/protect/
"""

from .common.kinds import SUBSCRIPTION, TOPIC
from .common.protection import unprotected
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import items, look

REPOSITORY = "gcp:artifactregistry/repository:Repository"
LOSSES = {
    "gcp:storage/bucket:Bucket": "the jobs and results in it",
    TOPIC: "the subscriptions' source of work",
    SUBSCRIPTION: "the work that waits in it",
    REPOSITORY: "the images in it",
    "gcp:logging/projectBucketConfig:ProjectBucketConfig": "the log lines in it",
    "gcp:bigquery/dataset:Dataset": "the tables in it",
    "gcp:filestore/instance:Instance": "the files in it",
    "gcp:kms/cryptoKey:CryptoKey": "everything that is encrypted with it",
}


@resource_rule(
    "Buckets, file systems, topics, subscriptions, images, logs and keys are protected from deletion.", HIGH, *LOSSES
)
def violations(args: Resource) -> Violations:
    if args.resource_type == REPOSITORY and is_cache(args):
        return
    yield from unprotected(args, LOSSES[args.resource_type], "purge")


def is_cache(args: Resource) -> bool:
    if look(args.props, "mode") in ("REMOTE_REPOSITORY", "VIRTUAL_REPOSITORY"):
        return True
    policies = items(look(args.props, "cleanupPolicies"))
    return any(look(p, "action") == "DELETE" and look(p, "condition", "tagState") == "ANY" for p in policies)
