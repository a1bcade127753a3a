"""A tag always names the same image, so that a queue's image cannot change.

Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
"""

from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("Tags of image repositories are immutable.", HIGH, "aws:ecr/repository:Repository")
def violations(args: Resource) -> Violations:
    mutability = look(args.props, "imageTagMutability")
    if mutability is not UNKNOWN and mutability != "IMMUTABLE":
        yield (
            f"imageTagMutability is {mutability or 'not set'}: a tag that a queue names could be moved to another "
            "image. Set it to IMMUTABLE."
        )
