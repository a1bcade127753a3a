"""Images are scanned for known vulnerabilities when they are pushed.

Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-scanning.html
"""

from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, look


@resource_rule("Images are scanned when they are pushed.", MEDIUM, "aws:ecr/repository:Repository")
def violations(args: Resource) -> Violations:
    scanned = flag(look(args.props, "imageScanningConfiguration", "scanOnPush"))
    if scanned is not UNKNOWN and scanned is not True:
        yield "imageScanningConfiguration.scanOnPush is off: vulnerable images go unnoticed. Set it to true."
