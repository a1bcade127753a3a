"""Asks a stack's cloud for what is in no state."""

import json
import os

import click
from botocore.exceptions import BotoCoreError, ClientError
from google.auth.exceptions import GoogleAuthError
from requests import RequestException

from components.config import StackConfig
from ops import project
from ops.added import Addition, aws, exported, gcp
from ops.engine import mistakes_told, region_of
from ops.processes import output

_SECONDS = 120


def additions(stack: str, config: StackConfig) -> list[Addition]:
    """What is in the cloud and in no state; the state is asked of the backend, because previews have no outputs.

    Raises:
        click.ClickException: The backend or the cloud cannot be asked.
    """
    command = ["pulumi", "stack", "export", "--stack", stack]
    with mistakes_told():
        code, text = output(command, cwd=project.ROOT, env=os.environ, timeout=_SECONDS)
    if code:
        raise click.ClickException(f"{' '.join(command)}: {' '.join(text.split())[-400:]}")
    found = exported(json.loads(text))
    try:
        if config.cloud == "aws":
            return list(aws.added(found, region_of(stack, "aws")))
        named = (each.values.get("project") for each in found)
        return list(gcp.added(found, next((str(each) for each in named if each), "")))
    except (BotoCoreError, ClientError, GoogleAuthError, RequestException) as error:
        raise click.ClickException(f"what was added by hand cannot be read: {error}") from None
