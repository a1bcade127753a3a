"""Keys rotate automatically, at least every year.

Source: https://cloud.google.com/kms/docs/key-rotation
"""

import re
from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import MEDIUM, resource_rule
from .common.values import UNKNOWN, look

TYPE = "gcp:kms/cryptoKey:CryptoKey"
_YEAR_SECONDS = 366 * 24 * 3600


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    period, purpose = look(args.props, "rotationPeriod"), look(args.props, "purpose")
    # Asymmetric keys cannot.
    if period is UNKNOWN or purpose not in (None, "ENCRYPT_DECRYPT"):
        return
    found = re.fullmatch(r"(\d+)(\.\d+)?s", period or "")
    if not found or int(found[1]) > _YEAR_SECONDS:
        yield f"rotationPeriod is {period or 'not set'}: set it to a year or less, such as 7776000s (90 days)."


POLICY = resource_rule(
    __name__, TYPE, violations=violations, description="Keys rotate at least every year.", severity=MEDIUM
)
