"""Keys rotate automatically every year.

Source: https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html
"""

from tidemill.planned_fleet import whole

from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, look

_YEAR_DAYS = 366


@resource_rule("KMS keys rotate automatically.", MEDIUM, "aws:kms/key:Key")
def violations(args: Resource) -> Violations:
    rotates, spec = flag(look(args.props, "enableKeyRotation")), look(args.props, "customerMasterKeySpec")
    # Only symmetric keys in KMS's own store can.
    if spec not in (None, "SYMMETRIC_DEFAULT") or look(args.props, "customKeyStoreId") is not None:
        return
    if rotates is not UNKNOWN and rotates is not True:
        yield "enableKeyRotation is off: the key material never changes. Set it to true."
    days = whole(look(args.props, "rotationPeriodInDays"))
    if days and days > _YEAR_DAYS:
        yield f"rotationPeriodInDays is {days}: set it to a year or less, or remove it."
