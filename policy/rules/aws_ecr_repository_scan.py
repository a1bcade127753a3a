"""Images are scanned for known vulnerabilities when they are pushed.

Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-scanning.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import MEDIUM, resource_rule
from .common.values import UNKNOWN, look

TYPE = "aws:ecr/repository:Repository"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    scanned = look(args.props, "imageScanningConfiguration", "scanOnPush")
    if scanned is not UNKNOWN and scanned is not True:
        yield "imageScanningConfiguration.scanOnPush is off: vulnerable images go unnoticed. Set it to true."


POLICY = resource_rule(
    __name__, TYPE, violations=violations, description="Images are scanned when they are pushed.", severity=MEDIUM
)
