"""The program of a stack: its config read and checked, its pipeline, and its outputs."""

from collections.abc import Sequence

import pulumi

from tidemill.errors import CallerError

from .config import from_pulumi, parse
from .pipeline import Pipeline, PipelineArgs


def run(allow: Sequence[str] = ()) -> None:
    """Build the stack of the running program and export what others need.

    Args:
        allow: More values of `tidemill:allow`.

    Raises:
        pulumi.RunError: The config or the price file is wrong; the run ends with one line before anything is created.
    """
    try:
        config = from_pulumi()
        if allow:
            config = parse({**config.model_dump(exclude_unset=True), "allow": [*{*config.allow, *allow}]})
        pipeline = Pipeline(f"{config.team}-{config.environment}", PipelineArgs(config=config))
    except CallerError as error:
        raise pulumi.RunError(str(error)) from None
    for name, value in pipeline.exports.items():
        pulumi.export(name, value)
