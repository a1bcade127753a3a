"""`python -m ops drift`: whether a stack still matches its code."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ops.additions import Addition
from ops.additions.ask import additions
from ops.ci.github import GitHub, keep_issue
from ops.engine_messages import advice
from ops.options import STACK
from ops.preview import document_of
from ops.project import engine_name, home_of, read_any
from ops.review.document import parse
from ops.review.escape import code

_KEPT = ("same", "read", "refresh")
"""Steps of a preview with a refresh that change nothing; `refresh` is the read itself."""


@click.command()
@click.option("--stack", type=STACK, required=True, help="A stack of stacks/ that exists in the backend.")
@click.option(
    "--issue",
    is_flag=True,
    help="Keep one GitHub issue per stack: opened or updated when there is drift, closed when there is none.",
)
def drift(stack: str, issue: bool) -> None:
    """Compare what exists in your cloud with the stack's program, under the policy pack.

    Drift is what `pulumi up --refresh` would change: what was changed or deleted by hand, and what was merged but
    not deployed. What was added by hand counts too, although `up` leaves it: policies on roles, rules of security
    groups and firewalls, bindings. So do policies that are violated since, for example because a waiver has ended. The
    command changes nothing, prints no values and reads no secrets.

    Exits 1 if there is drift or the comparison failed; with --issue, only if the comparison failed. Exits 2 if an
    argument or the stack file is wrong. --issue reads GITHUB_REPOSITORY, GITHUB_TOKEN and GITHUB_API_URL.
    """
    github = GitHub.of_environment(os.environ) if issue else None
    config = read_any(stack)
    document = document_of(stack, config, "login", refresh=True)
    if document["preview"] is None or (document["exit_code"] and not violated(document)):
        told = parse(json.dumps(document), stack).told
        raise click.ClickException("\n".join([*told, *advice(told)]) or f"pulumi ended with {document['exit_code']}")
    changes, violations, others = (
        steps(document),
        violated(document),
        additions(stack, config),
    )
    clean = not changes and not violations and not others
    text = "There is no drift." if clean else report(stack, changes, violations, others)
    click.echo(text)
    if github is not None:
        keep_issue(github, f"Drift: {stack}", text, needed=not clean)
    elif not clean:
        sys.exit(1)


def steps(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a preview document that would change something, sorted by resource name."""
    changes = [step for step in document["preview"]["steps"] if step["op"] not in _KEPT]
    return sorted(changes, key=lambda step: (step["urn"], step["op"]))


def violated(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [message for message in document["policies"] if message["level"] == "mandatory"]


def report(
    stack: str,
    changes: Sequence[Mapping[str, Any]],
    violations: Sequence[Mapping[str, Any]],
    others: Sequence[Addition] = (),
) -> str:
    """A report in Markdown: each differing property without its value, each addition and violation, and what to do."""
    lines = [f"The stack `{stack}` does not match its code."]
    if changes:
        lines += ["", "| `up` would | resource | type | properties |", "|---|---|---|---|"]
        lines += [_row(step) for step in changes]
    if others:
        lines += ["", "Added by hand; `up` leaves it, so remove it by hand or put it into the code:", ""]
        lines += [f"- `{each.resource}`: {code(each.what)}" for each in others]
    if violations:
        lines += ["", "Mandatory policies are violated:", ""]
        lines += [f"- `{violation['rule']}`: {' '.join(violation['message'].split())}" for violation in violations]
    values = f"pulumi preview --refresh --diff --stack {engine_name(stack)}"
    values += f" --cwd {home_of(stack)}" if home_of(stack) else ""
    lines += ["", f"`python -m ops drift --stack {stack}` checks again; `{values}` shows values."]
    lines += ["Deploy to restore what the code says, or put the manual change into the code."]
    return "\n".join(lines)


def _row(step: Mapping[str, Any]) -> str:
    kind, name = step["urn"].split("::")[2].rpartition("$")[2], step["urn"].rpartition("::")[2]
    properties = sorted(step.get("detailedDiff") or step.get("diffReasons") or [])
    return f"| {step['op']} | `{name}` | `{kind}` | {', '.join(f'`{each}`' for each in properties)} |"
