"""`python -m ops preview`: what a stack would change, judged by the policy pack."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from components.config import ConfigError, from_file
from localcloud.cloud import Cloud, CloudError, GcpCloud
from localcloud.engine import EngineError
from ops.processes import run
from ops.project import POLICY, ROOT, copy_project, stack_file

_TIMEOUT_SECONDS = 600
_CLOUDS = {"aws": Cloud, "gcp": GcpCloud}


@click.command()
@click.option("--stack", required=True, help="A stack of stacks/, such as vision-dev.")
@click.option(
    "--on",
    "where",
    type=click.Choice(["localcloud", "login"]),
    default="localcloud",
    show_default=True,
    help="An empty AWS or GCP on this machine, or the account and backend that you are logged in to.",
)
def preview(stack: str, where: str) -> None:
    """Preview a stack with the policy pack and print the diff.

    Exits 1 when the program fails, a mandatory policy is violated or there is no engine; 2 when what was typed or the
    stack file is wrong. Nothing is created.
    """
    try:
        config = from_file(stack_file(stack))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    try:
        sys.exit(_on_login(stack) if where == "login" else _on_localcloud(stack, config.cloud))
    except FileNotFoundError as error:
        raise click.UsageError(f"{error.filename} is not on PATH: https://www.pulumi.com/docs/install") from None
    except subprocess.TimeoutExpired as error:
        raise click.ClickException(f"no end within {error.timeout:.0f} s, so it was ended") from None
    except (CloudError, EngineError) as error:
        raise click.ClickException(str(error)) from None


def _command(stack: str) -> list[str]:
    return ["pulumi", "preview", "--stack", stack, "--diff", "--non-interactive", "--policy-pack", str(POLICY)]


def _on_login(stack: str) -> int:
    return run(_command(stack), cwd=ROOT, env=os.environ, timeout=_TIMEOUT_SECONDS)


def _on_localcloud(stack: str, cloud_name: str) -> int:
    with tempfile.TemporaryDirectory(prefix="tidemill-preview-") as scratch:
        project = Path(scratch, "project")
        project.mkdir()
        copy_project(project, stack)
        with _CLOUDS[cloud_name](Path(scratch, "state")) as cloud:
            code = _prepare(stack, cloud, project)
            return code or run(_command(stack), cwd=project, env=cloud.env, timeout=_TIMEOUT_SECONDS)


def _prepare(stack: str, cloud: Cloud | GcpCloud, project: Path) -> int:
    commands = [["pulumi", "stack", "init", stack, "--non-interactive"]]
    if isinstance(cloud, GcpCloud):
        # It has one project; the copied stack file names the team's.
        commands.append(["pulumi", "config", "set", "gcp:project", cloud.project, "--stack", stack])
    for command in commands:
        if code := run(command, cwd=project, env=cloud.env, timeout=60):
            return code
    return 0
