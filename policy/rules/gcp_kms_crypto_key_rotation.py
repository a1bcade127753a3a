"""Keys rotate automatically, at least every year.

Source: https://cloud.google.com/kms/docs/key-rotation
"""

import re

from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look

_YEAR_SECONDS = 366 * 24 * 3600


@resource_rule("Keys rotate at least every year.", MEDIUM, "gcp:kms/cryptoKey:CryptoKey")
def violations(args: Resource) -> Violations:
    period, purpose = look(args.props, "rotationPeriod"), look(args.props, "purpose")
    # Asymmetric keys cannot.
    if period is UNKNOWN or purpose not in (None, "ENCRYPT_DECRYPT"):
        return
    match = re.fullmatch(r"(\d+)(\.\d+)?s", period or "")
    if not match or int(match[1]) > _YEAR_SECONDS:
        yield f"rotationPeriod is {period or 'not set'}: set it to a year or less, such as 7776000s (90 days)."
