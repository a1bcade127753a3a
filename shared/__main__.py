"""The platform team's shared stack: ``pulumi up`` in this folder once per account or project and region."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components import money
from components.config import ConfigError
from components.config.shared_models import SharedConfig, from_pulumi

if TYPE_CHECKING:
    from components.aws.shared import AwsShared
    from components.gcp.shared import GcpShared


def main() -> None:
    """Build the stack; an invalid config ends the run with one line before anything is created."""
    stack = pulumi.get_stack()
    try:
        config = from_pulumi()
        if (region := pulumi.Config(config.cloud).get("region")) and (cost := money.shared_note(config, region)):
            pulumi.log.info(cost)
        home = _gcp(stack, config) if config.cloud == "gcp" else _aws(stack, config)
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.export("shared", home.shared)
    pulumi.export("registry_url", home.registry_url)


def _aws(stack: str, config: SharedConfig) -> "AwsShared":
    # Import only the stack's own cloud SDK: each takes seconds to load.
    from components.aws.shared import AwsShared, AwsSharedArgs  # noqa: PLC0415

    args = AwsSharedArgs(
        namespace=f"shared-{stack}",
        purge=config.purge,
        tags={"tidemill:shared": stack},
        **config.network.model_dump(),
        **config.registry.model_dump(),
    )
    return AwsShared(f"shared-{stack}", args)


def _gcp(stack: str, config: SharedConfig) -> "GcpShared":
    from components.gcp.shared import GcpShared, GcpSharedArgs  # noqa: PLC0415

    args = GcpSharedArgs(
        repository=f"shared-{stack}",
        purge=config.purge,
        labels={"tidemill-shared": stack},
        **config.network.model_dump(include={"egress", "cidr"}),
        **config.registry.model_dump(exclude={"repositories"}),
    )
    return GcpShared(f"shared-{stack}", args)


main()
