"""Nothing gets in from outside: no firewall rule admits a public address range.

A rule without a source admits everybody.
Source: https://cloud.google.com/firewall/docs/firewalls#sources
"""

from .common.addresses import is_outside
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, items, look

_SOURCES = ("sourceRanges", "sourceTags", "sourceServiceAccounts")


@resource_rule("No firewall rule admits an address range from outside.", CRITICAL, "gcp:compute/firewall:Firewall")
def violations(args: Resource) -> Violations:
    if look(args.props, "direction") == "EGRESS" or not items(look(args.props, "allows")):
        return
    if flag(look(args.props, "disabled")) is True:
        return
    # A range admits by itself, whatever the tags and accounts are.
    sources = [look(args.props, key) for key in _SOURCES]
    silent = not any(source or source is UNKNOWN for source in sources)
    blocks = ["0.0.0.0/0"] if silent else items(sources[0])
    for block in filter(is_outside, blocks):
        yield (
            f"{block} may come in: machines would be reachable from outside. Remove the rule, or name a private range, "
            "a source tag or a service account."
        )
