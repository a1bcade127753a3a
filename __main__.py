"""The Pulumi program: read the stack's config, build the team's pipeline, export what others need."""

import pulumi

from components.config import ConfigError, from_pulumi
from components.pipeline import Pipeline, PipelineArgs


def main() -> None:
    """Build the stack that the engine asks for; a wrong config ends the run in one line before anything is made."""
    try:
        config = from_pulumi()
        pipeline = Pipeline(
            f"{config.team}-{config.environment}", PipelineArgs(config=config.model_dump(exclude_unset=True))
        )
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None
    for name, value in pipeline.exports.items():
        pulumi.export(name, value)


main()
