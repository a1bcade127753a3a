"""Every file system names the private ranges that may mount it.

Without export options the whole network may mount it, peered networks included. NFS asks for no login.
Source: https://cloud.google.com/filestore/docs/access-control
"""

from .common.addresses import is_outside
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look


@resource_rule(
    "Every file system admits only private ranges that it names.", CRITICAL, "gcp:filestore/instance:Instance"
)
def violations(args: Resource) -> Violations:
    exports = look(args.props, "fileShares", "nfsExportOptions")
    ranges = [look(export, "ipRanges") for export in items(exports)]
    if exports is UNKNOWN or any(each is UNKNOWN for each in ranges):
        return
    if not ranges or not all(ranges):
        yield "every machine of the network may mount it. Name the machines' range in nfsExportOptions.ipRanges."
    for block in (block for each in ranges for block in items(each)):
        if is_outside(block):
            yield f"{block} may mount it: a range that is not private. Name the machines' range."
