"""Refuses a second pipeline of a team and environment, before anything of it is made."""

import pulumi

from .config import ConfigError, StackConfig
from .rooms import cloud_room


def refuse_taken(name: str, config: StackConfig, pipeline: pulumi.Resource) -> pulumi.ResourceHookBinding:
    """Hooks that let the engine create a pipeline only where no other stack has it.

    The engine calls them for a pipeline that the stack's state does not have, in a preview as well, and before it
    creates anything inside the pipeline. What the account has then is another stack's, wherever that one's state lies
    and whatever it is called.

    Args:
        name: The pipeline's name, which the names of resources begin with.
    """

    def refuse(_: pulumi.ResourceHookArgs) -> None:
        if found := cloud_room(config.cloud, "pipeline").standing(name, config, pipeline):
            raise ConfigError(
                "tidemill:environment",
                repr(config.environment),
                "an environment that no other stack of the team has",
                "Take another environment for a second pipeline; for the same one, log in to the backend and select "
                "the stack that have it (docs/troubleshooting.md)",
                sentence=f" is taken: team {config.team!r} has a pipeline for {config.environment!r} here that is not "
                f"in this stack's state ({found})",
            )

    hook = pulumi.ResourceHook(f"{name} is the only one", refuse, pulumi.ResourceHookOptions(on_dry_run=True))
    return pulumi.ResourceHookBinding(before_create=[hook])
