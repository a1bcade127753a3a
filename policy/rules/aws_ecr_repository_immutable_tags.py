"""A tag always names the same image, so that a queue's image cannot change.

Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import HIGH, resource_rule
from .common.values import UNKNOWN, look

TYPE = "aws:ecr/repository:Repository"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    mutability = look(args.props, "imageTagMutability")
    if mutability is not UNKNOWN and mutability != "IMMUTABLE":
        yield (
            f"imageTagMutability is {mutability or 'not set'}: a tag that a queue names could be moved to another "
            "image. Set it to IMMUTABLE."
        )


POLICY = resource_rule(
    __name__, TYPE, violations=violations, description="Tags of image repositories are immutable.", severity=HIGH
)
