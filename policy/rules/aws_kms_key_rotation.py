"""Keys rotate automatically every year.

Source: https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import MEDIUM, resource_rule
from .common.values import UNKNOWN, look

TYPE = "aws:kms/key:Key"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    rotates, spec = look(args.props, "enableKeyRotation"), look(args.props, "customerMasterKeySpec")
    # Only symmetric keys can.
    if rotates is not UNKNOWN and rotates is not True and spec in (None, "SYMMETRIC_DEFAULT"):
        yield "enableKeyRotation is off: the key material never changes. Set it to true."


POLICY = resource_rule(
    __name__, TYPE, violations=violations, description="KMS keys rotate automatically.", severity=MEDIUM
)
