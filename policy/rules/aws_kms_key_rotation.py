"""Keys rotate automatically every year.

Source: https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html
"""

from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("KMS keys rotate automatically.", MEDIUM, "aws:kms/key:Key")
def violations(args: Resource) -> Violations:
    rotates, spec = look(args.props, "enableKeyRotation"), look(args.props, "customerMasterKeySpec")
    # Only symmetric keys can.
    if rotates is not UNKNOWN and rotates is not True and spec in (None, "SYMMETRIC_DEFAULT"):
        yield "enableKeyRotation is off: the key material never changes. Set it to true."
