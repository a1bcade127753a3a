"""Machine disks are explicitly encrypted: an account's default can be turned off.

Source: https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html
"""

from .common.kinds import LAUNCH_TEMPLATE
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, items, look


@resource_rule("Every disk of a launch template is encrypted.", HIGH, LAUNCH_TEMPLATE)
def violations(args: Resource) -> Violations:
    for index, mapping in enumerate(items(look(args.props, "blockDeviceMappings"))):
        disk = look(mapping, "ebs")
        encrypted = flag(look(disk, "encrypted"))
        if disk and encrypted is not UNKNOWN and encrypted is not True:
            yield (
                f"blockDeviceMappings[{index}].ebs.encrypted is {'not set' if encrypted is None else 'false'}: items' "
                "files would be on an unencrypted disk. Set encrypted to true."
            )
