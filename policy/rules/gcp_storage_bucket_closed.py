"""Every bucket is closed to the public, and permissions are the bucket's alone, not each object's.

Cloud Storage encrypts everything by itself.
Source: https://cloud.google.com/storage/docs/public-access-prevention
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import CRITICAL, resource_rule
from .common.values import UNKNOWN, look

TYPE = "gcp:storage/bucket:Bucket"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    """Yield what is open about a bucket, each with its fix."""
    prevention, uniform = look(args.props, "publicAccessPrevention"), look(args.props, "uniformBucketLevelAccess")
    if prevention is not UNKNOWN and prevention != "enforced":
        yield f"publicAccessPrevention is {prevention or 'not set'}: a grant could open the bucket. Set it to enforced."
    if uniform is not UNKNOWN and uniform is not True:
        yield "uniformBucketLevelAccess is off: single objects could be opened by their ACLs. Set it to true."


POLICY = resource_rule(
    __name__, TYPE, violations=violations, description="Every bucket prevents public access.", severity=CRITICAL
)
