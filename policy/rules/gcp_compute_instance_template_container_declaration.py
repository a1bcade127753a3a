"""No machine uses `gce-container-declaration`: Google has deprecated it and will remove it.

Source: https://cloud.google.com/compute/docs/containers/migrate-containers
"""

from .common.kinds import MACHINES
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look

KEY = "gce-container-declaration"


@resource_rule("No machine uses gce-container-declaration.", HIGH, *MACHINES)
def violations(args: Resource) -> Violations:
    metadata = look(args.props, "metadata")
    if metadata is not None and metadata is not UNKNOWN and KEY in set(metadata):
        yield (
            f"metadata.{KEY} is set: its agent is deprecated and will be removed. Start the container by cloud-init: "
            "metadata.user-data with a systemd unit."
        )
