"""The Pulumi program: reads the stack's config, builds the team's pipeline and exports what others need."""

import pulumi

from components.config import ConfigError, from_pulumi
from components.pipeline import Pipeline, PipelineArgs


def main() -> None:
    """Build the stack; an invalid config ends the run with one line before anything is created."""
    try:
        config = from_pulumi()
        pipeline = Pipeline(f"{config.team}-{config.environment}", PipelineArgs(config=config))
    except ConfigError as error:
        raise pulumi.RunError(str(error)) from None
    for name, value in pipeline.exports.items():
        pulumi.export(name, value)


main()
