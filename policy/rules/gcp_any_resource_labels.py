"""Everything that can be labelled names its owner: cost reports depend on it.

Source: https://cloud.google.com/resource-manager/docs/best-practices-labels
"""

from .common.kinds import MACHINES, SUBSCRIPTION, TOPIC
from .common.labels import missing, parameters
from .common.rule import MEDIUM, Resource, Violations, resource_rule

TYPES = (
    *MACHINES,
    SUBSCRIPTION,
    TOPIC,
    "gcp:artifactregistry/repository:Repository",
    "gcp:bigquery/dataset:Dataset",
    "gcp:cloudfunctionsv2/function:Function",
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
    yield from missing(args, "labels", "effectiveLabels", word="labels")
