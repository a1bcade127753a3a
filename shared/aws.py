"""A shared stack on AWS."""

from components.aws.shared import AwsShared, AwsSharedArgs
from components.config.shared_models import SharedConfig


def make(stack: str, config: SharedConfig) -> AwsShared:
    """Make a shared stack's resources."""
    args = AwsSharedArgs(
        namespace=f"shared-{stack}",
        purge=config.purge,
        tags={**config.tags, "tidemill:shared": stack},
        **config.network.model_dump(),
        **config.registry.model_dump(),
    )
    return AwsShared(f"shared-{stack}", args)
