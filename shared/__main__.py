"""The platform team's shared stack: ``pulumi up`` in this folder once per account or project and region."""

import sys
from importlib import import_module
from pathlib import Path

import pulumi

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from components import money
from components.config.shared_models import PROJECT
from components.protection import Protection, ProtectionArgs


def main() -> None:
    """Build the stack; an invalid config ends the run with one line before anything is created."""
    stack = pulumi.get_stack()
    config = PROJECT.from_program()
    if (region := pulumi.Config(config.cloud).get("region")) and (cost := money.shared_note(config, region)):
        pulumi.log.info(cost)
    # Imported late: a cloud's SDK takes seconds to load.
    home = import_module(f"shared.{config.cloud}").make(stack, config)
    last = pulumi.ResourceOptions(depends_on=[home])
    Protection(f"shared-{stack}", ProtectionArgs(config.purge, "tidemill-shared:purge"), last)
    pulumi.export("shared", home.shared)
    pulumi.export("registry_url", home.registry_url)


main()
