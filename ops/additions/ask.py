"""Asks a stack's cloud for what is in no state."""

from importlib import import_module

import click

from ops.additions import Addition, exported
from ops.engine import answered
from ops.project import AnyConfig, engine_name, program


def additions(stack: str, config: AnyConfig) -> list[Addition]:
    """Resources that are in the cloud and in no state. The backend is asked for the state: previews have no outputs.

    Raises:
        click.ClickException: The backend or the cloud cannot be asked.
    """
    state = exported(answered("stack", "export", "--stack", engine_name(stack), folder=program(stack)))
    # Imported late: the other cloud's client need not be installed.
    cloud = import_module(f"ops.additions.{config.cloud}")
    try:
        return list(cloud.asked(stack, state))
    except cloud.REFUSALS as error:
        raise click.ClickException(f"what was added by hand cannot be read: {error}") from None
