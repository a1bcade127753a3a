"""Everything that can be labelled names its owner: cost reports depend on it.

Source: https://cloud.google.com/resource-manager/docs/best-practices-labels
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import MACHINES, SUBSCRIPTION, TOPIC
from .common.labels import missing, parameters
from .common.rule import MEDIUM, resource_rule

TYPES = (
    *MACHINES,
    SUBSCRIPTION,
    TOPIC,
    "gcp:artifactregistry/repository:Repository",
    "gcp:bigquery/dataset:Dataset",
    "gcp:cloudfunctionsv2/function:Function",
    "gcp:kms/cryptoKey:CryptoKey",
    "gcp:secretmanager/secret:Secret",
    "gcp:storage/bucket:Bucket",
)


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    yield from missing(args, "labels", "effectiveLabels", word="labels")


POLICY = resource_rule(
    __name__,
    *TYPES,
    violations=violations,
    description="Everything that can be labelled carries the required labels.",
    severity=MEDIUM,
    parameters=parameters(["tidemill-team", "tidemill-environment"]),
)
