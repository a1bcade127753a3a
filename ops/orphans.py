"""`python -m ops orphans`: stacks of a backend that have resources, but no file in `stacks/` any more."""

import json
import os
import sys
from urllib.parse import urlsplit

import click

from ops import project
from ops.affected import Stack
from ops.ci import logins
from ops.ci.github import GitHub, keep_issue
from ops.engine import answered
from ops.options import STACK
from ops.review.document import VERSION

TITLE = "Stacks without a file"
DESTROY = "git checkout COMMIT-BEFORE -- {path} && pulumi destroy --stack {name}"
"""How to give up a stack whose file is gone."""


@click.command()
@click.option("--stack", type=STACK, help="Look at this stack alone.")
@click.option("--issue", is_flag=True, help="Keep one GitHub issue per backend; it closes when there are none.")
@click.option("--homes", is_flag=True, help="Print CI's logins, one per backend, as a JSON array.")
def orphans(stack: str | None, issue: bool, homes: bool) -> None:
    """List the stacks of your backend that have resources, but no file in stacks/.

    A removed or renamed stack file deletes nothing: buckets, networks and budgets stay, and nothing manages them.

    Exits 1 if there is one (with --issue, only if the backend cannot be read), 2 if an argument is wrong. --issue reads
    GITHUB_REPOSITORY, GITHUB_TOKEN and GITHUB_API_URL.
    """
    if homes:
        click.echo(json.dumps(logins.homes()))
        return
    github = GitHub.of_environment(os.environ) if issue else None
    left = {name: count for name, count in deployed().items() if count and not _has_file(name)}
    if stack is not None:
        left = {name: count for name, count in left.items() if name == stack}
    text = report(left) if left else "No stack is without a file."
    click.echo(text)
    if github is not None:
        keep_issue(github, _title(), text, needed=bool(left))
    elif left:
        sys.exit(1)


def deployed() -> dict[str, int]:
    """The stacks of these projects in the backend, and how many resources each has.

    Raises:
        click.ClickException: The backend cannot be read.
    """
    found = {}
    folders = {"tidemill": "", **{home.project.name: f"{folder}/" for folder, home in project.HOMES.items()}}
    for each in answered("stack", "ls", "--all", "--json"):
        # `organization/project/stack`; the engine leaves out what is of this folder's project, or of the user.
        *others, name = each["name"].split("/")
        folder = folders.get(others[1] if len(others) > 1 else "tidemill")
        if folder is not None:
            found[f"{folder}{name}"] = each.get("resourceCount") or 0
    return found


def report(left: dict[str, int]) -> str:
    """The stacks in Markdown, and what to do about them."""
    lines = [
        "These stacks have resources in the cloud, but no file in `stacks/`, `bootstrap/` or `shared/`:",
        "",
        "| stack | resources |",
    ]
    lines += ["|---|---:|", *(f"| `{name}` | {count} |" for name, count in sorted(left.items()))]
    first = min(left)
    path = project.settings_file(first, project.ROOT).relative_to(project.ROOT)
    example = DESTROY.format(path=path, name=project.engine_name(first))
    example += f" --cwd {project.home_of(first)}" if project.home_of(first) else ""
    lines += [
        "",
        "Nothing manages them: no review, no deployment, no drift check. Restore a file to keep its stack.",
    ]
    lines += [f"To give a stack up, restore its file and destroy it: `{example}`."]
    lines += [
        "Its jobs run on until then, and destroy ends them with all results: look before it with `tidemill jobs`."
    ]
    return "\n".join(lines)


def document(stack: Stack, base: dict | None, where: str) -> dict:
    """The preview document of a stack whose file is removed (docs/review.md); no engine runs.

    Args:
        where: On `login` the backend tells how many resources it has.
    """
    return {
        "version": VERSION,
        "stack": stack.stack,
        "cloud": stack.cloud,
        "region": stack.region or None,
        "environment": stack.environment or None,
        "preview": None,
        "policies": [],
        "exit_code": 0,
        "base": base,
        "removed": {"resources": deployed().get(stack.stack, 0) if where == "login" else None},
    }


def _has_file(name: str) -> bool:
    return project.settings_file(name, project.STACKS.parent).is_file()


def _title() -> str:
    backend = urlsplit(os.environ.get("PULUMI_BACKEND_URL", "")).netloc
    return f"{TITLE}: {backend}" if backend else TITLE
