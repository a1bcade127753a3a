"""Every bucket is closed to the public, and only the bucket has permissions, not each object.

Cloud Storage encrypts everything by itself.
Source: https://cloud.google.com/storage/docs/public-access-prevention
"""

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, look


@resource_rule("Every bucket prevents public access.", CRITICAL, "gcp:storage/bucket:Bucket")
def violations(args: Resource) -> Violations:
    prevention, uniform = look(args.props, "publicAccessPrevention"), flag(look(args.props, "uniformBucketLevelAccess"))
    if prevention is not UNKNOWN and prevention != "enforced":
        yield f"publicAccessPrevention is {prevention or 'not set'}: a grant could open the bucket. Set it to enforced."
    if uniform is not UNKNOWN and uniform is not True:
        yield "uniformBucketLevelAccess is off: ACLs could make single objects public. Set it to true."
