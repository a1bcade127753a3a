"""`python -m ops insights`: Container Insights of a stack's compute environments, which the provider cannot set."""

from collections.abc import Iterator
from typing import Any

import boto3
import click

from components.base import team_tags
from components.config import StackConfig
from components.config.load import read_file
from ops.clouds.aws_refusals import REFUSALS
from ops.options import STACK
from ops.project import read_config, stack_file

VALUES = {"on": "ENABLED", "off": "DISABLED"}


@click.command()
@click.option("--stack", type=STACK, required=True, help="A stack of stacks/ that is on AWS and is up.")
@click.argument("state", type=click.Choice(list(VALUES)))
def insights(stack: str, state: str) -> None:
    """Turn CloudWatch's Container Insights on or off for a stack's machines.

    Repeat it after a queue or rung was added. `pulumi up` leaves the setting alone: its provider does not know it.
    While machines run, a cluster has a few dozen custom metrics at $0.30 per month each; a job's own `tidemill report`
    shows CPU and memory by item for nothing. Uses your login; needs batch:UpdateComputeEnvironment.

    Exits 2 if an argument is wrong, 1 if AWS refuses.
    """
    path, config = stack_file(stack), read_config(stack)
    if config.cloud != "aws":
        raise click.UsageError(f"--stack {stack}: it is on {config.cloud}; Container Insights is a part of AWS.")
    region = read_file(path)["config"].get("aws:region")
    try:
        _switch(boto3.client("batch", region_name=region), config, VALUES[state])
    except REFUSALS as error:
        raise click.ClickException(f"AWS refused: {error}") from None


def _switch(batch: Any, config: StackConfig, value: str) -> None:
    environments = list(_environments(batch, config))
    if not environments:
        raise click.ClickException(f"{config.team}-{config.environment} has no compute environment here; is it up?")
    for environment in environments:
        name = environment["computeEnvironmentName"]
        if (environment.get("ecsSettings") or {}).get("containerInsights", VALUES["off"]) == value:
            click.echo(f"{name}: {value} already")
            continue
        batch.update_compute_environment(computeEnvironment=name, ecsSettings={"containerInsights": value})
        click.echo(f"{name}: {value}")


def _environments(batch: Any, config: StackConfig) -> Iterator[dict[str, Any]]:
    """The stack's environments, which have its tags."""
    wanted = team_tags(config.team, config.environment).items()
    pages = batch.get_paginator("describe_compute_environments").paginate()
    for environment in (environment for page in pages for environment in page["computeEnvironments"]):
        if wanted <= (environment.get("tags") or {}).items():
            yield environment
