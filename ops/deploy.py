"""`python -m ops plan` and `deploy`: do what was approved, and nothing else."""

import json
import os
import signal
import sys
from pathlib import Path

import click

from ops import project
from ops.additions.ask import additions
from ops.engine import mistakes_told, shown
from ops.options import STACK
from ops.project import engine_name, environment_of, policy_options, program, read_any

_PREVIEW_SECONDS = 600
_UP_SECONDS = 4 * 3600
"""Replacing a compute environment waits for the jobs that run on it."""

_STACK = click.option("--stack", type=STACK, required=True, help="A stack of stacks/ that exists in the backend.")


@click.command()
@_STACK
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Write the plan to this file."
)
def plan(stack: str, out: Path) -> None:
    """Preview a stack on your login under the policy pack, and save the engine's plan of it for `deploy`.

    The plan holds the stack's configuration and the inputs of each change, with secrets encrypted. Exits 1 if the
    program fails or a mandatory policy is violated, 2 if an argument or the stack file is wrong.
    """
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise click.UsageError(f"--out {out}: {out.parent} is not a folder that you may write to.")
    for addition in additions(stack, read_any(stack)):
        # The engine does not see it, and `deploy` leaves it.
        click.echo(f"Added by hand, and left by `deploy`: {addition.resource}: {addition.what}", err=True)
    sys.exit(_pulumi(stack, "preview", "--diff", "--save-plan", str(out.resolve()), timeout=_PREVIEW_SECONDS))


@click.command()
@_STACK
@click.option(
    "--plan",
    "saved",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A plan of `python -m ops plan`: steps that are not in it are refused.",
)
def deploy(stack: str, saved: Path | None) -> None:
    """Bring a stack up on your login, under the policy pack, without asking.

    The engine compares each step with the plan when it reaches the step. Steps before one that differs are done, and
    the next deploy continues from there. Exits 1 if the engine or a mandatory policy refuses, 2 if an argument or the
    stack file is wrong.
    """
    # Without a plan the engine previews first: protection stops an `up` only when it reaches a protected resource.
    if saved is not None:
        _refuse_other(saved, stack)
    options = ["--skip-preview", "--plan", str(saved.resolve())] if saved else []
    sys.exit(up(stack, *options))


def _refuse_other(saved: Path, stack: str) -> None:
    """Refuse a file that is not a plan, or is another stack's, before the engine starts.

    Source: https://pkg.go.dev/github.com/pulumi/pulumi/sdk/v3/go/common/apitype, DeploymentPlanV1
    """
    try:
        plan = json.loads(saved.read_bytes())
    except (ValueError, OSError):
        plan = None
    if not isinstance(plan, dict) or not {"manifest", "resourcePlans"} & plan.keys():
        raise click.UsageError(
            f"--plan {saved}: it is not a plan. Write one: python -m ops plan --stack STACK --out FILE"
        )
    # `urn:pulumi:STACK::PROJECT::TYPE::NAME`
    own = f"urn:pulumi:{engine_name(stack)}::{project.project_name(stack)}::"
    if other := next((urn for urn in plan.get("resourcePlans") or {} if not urn.startswith(own)), None):
        raise click.UsageError(f"--plan {saved}: it is a plan of another stack than {stack}; it has {other}.")


def up(stack: str, *options: str) -> int:
    """Bring a stack up on the caller's login, under the policy pack; 1 if something refused.

    After Ctrl-C, or when CI stops the job, the engine finishes the steps that it has begun: killed between the cloud's
    answer and its state, it would leave something that nothing manages, and the stack's lock.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return _pulumi(stack, "up", "--yes", *options, timeout=_UP_SECONDS, grace=_UP_SECONDS)


def _pulumi(stack: str, verb: str, *options: str, timeout: float, grace: float | None = None) -> int:
    policies = policy_options(environment_of(stack, read_any(stack)))
    command = ["pulumi", verb, "--stack", engine_name(stack), "--non-interactive", *options, *policies]
    with mistakes_told():
        return 1 if shown(command, program(stack, project.ROOT), os.environ, timeout, grace=grace) else 0
