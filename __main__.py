"""The Pulumi program: reads the stack's config, builds the team's pipeline and exports what others need."""

import gc

import pulumi

from components.config import from_pulumi
from components.pipeline import Pipeline, PipelineArgs
from tidemill.errors import CallerError

# A cloud's SDK is 300,000 objects that stay. Python's default threshold adds a third to the time of their import.
gc.set_threshold(50_000)


def main() -> None:
    """Build the stack; an invalid config or price file ends the run with one line before anything is created."""
    try:
        config = from_pulumi()
        pipeline = Pipeline(f"{config.team}-{config.environment}", PipelineArgs(config=config))
    except CallerError as error:
        raise pulumi.RunError(str(error)) from None
    for name, value in pipeline.exports.items():
        pulumi.export(name, value)


main()
