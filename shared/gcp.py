"""A shared stack on GCP."""

from components.config.shared_models import SharedConfig
from components.gcp.shared import GcpShared, GcpSharedArgs


def make(stack: str, config: SharedConfig) -> GcpShared:
    """Make a shared stack's resources."""
    args = GcpSharedArgs(
        repository=f"shared-{stack}",
        purge=config.purge,
        labels={**config.tags, "tidemill-shared": stack},
        **config.network.model_dump(include={"egress", "cidr", "flow_logs_days"}),
        **config.registry.model_dump(exclude={"repositories"}),
    )
    return GcpShared(f"shared-{stack}", args)
