"""Asks a stack's cloud for what is in no state."""

from collections.abc import Sequence

import click
from botocore.exceptions import BotoCoreError, ClientError
from google.auth.exceptions import GoogleAuthError
from requests import RequestException

from ops.added import Addition, Known, aws, gcp


def additions(found: Sequence[Known], cloud: str, region: str | None) -> list[Addition]:
    """What is in the cloud and in no state.

    Raises:
        click.ClickException: The cloud cannot be asked.
    """
    if not found:
        return []
    project = next((str(each.values["project"]) for each in found if each.values.get("project")), "")
    try:
        return list(aws.added(list(found), region) if cloud == "aws" else gcp.added(list(found), project))
    except (BotoCoreError, ClientError, GoogleAuthError, RequestException) as error:
        raise click.ClickException(f"what was added by hand cannot be read: {error}") from None
