"""Machine disks are explicitly encrypted: an account's default can be turned off.

Source: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import LAUNCH_TEMPLATE
from .common.rule import HIGH, resource_rule
from .common.values import UNKNOWN, items, look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    for index, mapping in enumerate(items(look(args.props, "blockDeviceMappings"))):
        disk = look(mapping, "ebs")
        encrypted = look(disk, "encrypted")
        if disk and encrypted is not UNKNOWN and str(encrypted).lower() != "true":
            yield (
                f"blockDeviceMappings[{index}].ebs.encrypted is {encrypted or 'not set'}: items' files would be on "
                "an unencrypted disk. Set encrypted to true."
            )


POLICY = resource_rule(
    __name__,
    LAUNCH_TEMPLATE,
    violations=violations,
    description="Every disk of a launch template is encrypted.",
    severity=HIGH,
)
