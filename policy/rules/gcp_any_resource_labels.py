"""Everything that can be labelled names its owner: cost reports depend on it.

Of what is not made yet, machines and their disks, a template says the labels. The provider does not add its default
labels to those of a template's disks.
Source: https://cloud.google.com/resource-manager/docs/best-practices-labels
"""

from .common.kinds import MACHINES, SUBSCRIPTION, TEMPLATES, TOPIC
from .common.labels import parameters, wrong, wrong_in
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import items, look

_ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"
_CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
_LABELLED_BY_USERS = (_ALERT, _CHANNEL)
"""Types whose `labels` mean something else, or that have none."""
TYPES = (
    *MACHINES,
    SUBSCRIPTION,
    TOPIC,
    *_LABELLED_BY_USERS,
    "gcp:artifactregistry/repository:Repository",
    "gcp:bigquery/dataset:Dataset",
    "gcp:cloudfunctionsv2/function:Function",
    "gcp:cloudrunv2/job:Job",
    "gcp:cloudrunv2/service:Service",
    "gcp:compute/address:Address",
    "gcp:compute/disk:Disk",
    "gcp:compute/image:Image",
    "gcp:compute/snapshot:Snapshot",
    "gcp:filestore/instance:Instance",
    "gcp:kms/cryptoKey:CryptoKey",
    "gcp:secretmanager/secret:Secret",
    "gcp:storage/bucket:Bucket",
)


@resource_rule(
    "Everything that can be labelled carries the required labels.",
    MEDIUM,
    *TYPES,
    parameters=parameters(["tidemill-team", "tidemill-environment"]),
)
def violations(args: Resource) -> Violations:
    where = ("userLabels",) if args.resource_type in _LABELLED_BY_USERS else ("labels", "effectiveLabels")
    yield from wrong(args, *where, word="labels")
    if args.resource_type in TEMPLATES:
        # A local disk has none, and one that exists keeps its own.
        disks = [
            disk
            for disk in items(look(args.props, "disks"))
            if look(disk, "type") != "SCRATCH" and look(disk, "source") is None
        ]
        found = [each for disk in disks for each in wrong_in(args, [look(disk, "labels")], "labels", "its disks")]
        yield from dict.fromkeys(found)
