"""Writes CI's reports on GitHub: one comment per pull request and one issue per stack, both edited in place.

Uses the REST API with the token and the address from the workflow's environment
(https://docs.github.com/en/actions/reference/workflows-and-actions/variables), not `gh`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from ops.ci.gitlab import GitLab
from ops.ci.rest import HostError, Rest

MOST = 65_536
"""Characters of a comment or an issue. Source: GitHub's answer, "body is too long (maximum is 65536 characters)"."""
MARK = "<!-- tidemill: review -->"
LABEL = "drift"

_CUT = "\n\n… Cut here: GitHub accepts no more.\n"


class GitHub:
    """Comments and issues of one repository.

    Args:
        token: With `issues: write`, and `pull-requests: write` for comments on pull requests.
        api: Of GitHub, or of a GitHub Enterprise Server.
    """

    def __init__(self, repository: str, token: str, api: str = "https://api.github.com") -> None:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        base, token = f"{api.rstrip('/')}/repos/{repository}", f"Bearer {token}"
        self._rest = Rest(base, {"Authorization": token, **headers}, redirects=True)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> GitHub:
        """The repository that a workflow runs for.

        Raises:
            click.UsageError: GITHUB_REPOSITORY or GITHUB_TOKEN is not set.
        """
        repository, token = (environment.get(name, "") for name in ("GITHUB_REPOSITORY", "GITHUB_TOKEN"))
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
            raise click.UsageError(f"GITHUB_REPOSITORY is {repository!r}, not owner/name.")
        if not token:
            raise click.UsageError("GITHUB_TOKEN is not set; in a workflow: env: {GITHUB_TOKEN: ${{ github.token }}}.")
        return cls(repository, token, environment.get("GITHUB_API_URL") or "https://api.github.com")

    def comment(self, pull: int, body: str, mark: str = MARK, *, only_edit: bool = False) -> str | None:
        """Write the comment of a pull request that begins with a mark, or edit the existing one; return its URL.

        Args:
            mark: An HTML comment, which GitHub does not show.
            only_edit: If there is no comment yet, write none and return None.
        """
        text = {"body": fitting(f"{mark}\n{body}")}
        for existing in self._rest.pages(f"issues/{pull}/comments"):
            if existing["body"].startswith(mark):
                return self._rest.call("PATCH", f"issues/comments/{existing['id']}", text)["html_url"]
        return None if only_edit else self._rest.call("POST", f"issues/{pull}/comments", text)["html_url"]

    def open_issue(self, title: str, body: str, label: str = LABEL) -> str:
        """Open the issue with a title, or update the open one; return its URL."""
        text = {"body": fitting(body)}
        if (number := self._open(title, label)) is not None:
            return self._rest.call("PATCH", f"issues/{number}", text)["html_url"]
        made = self._rest.call("POST", "issues", {"title": title, "labels": [label], **text})
        if label not in {each["name"] for each in made["labels"]}:
            # The label is how the issue is found again: without it, each night would open another issue.
            raise HostError(f"{made['html_url']} did not get the label {label!r}: the token may not write issues")
        return made["html_url"]

    def close_issue(self, title: str, reason: str, label: str = LABEL) -> str | None:
        """Close the open issue with a title with a last comment; return its URL, None if there is none."""
        number = self._open(title, label)
        if number is None:
            return None
        self._rest.call("POST", f"issues/{number}/comments", {"body": fitting(reason)})
        closed = {"state": "closed", "state_reason": "completed"}
        return self._rest.call("PATCH", f"issues/{number}", closed)["html_url"]

    def _open(self, title: str, label: str) -> int | None:
        """The number of the oldest open issue with a title and a label."""
        order = {"state": "open", "labels": label, "sort": "created", "direction": "asc"}
        issues = (issue for issue in self._rest.pages("issues", order) if "pull_request" not in issue)
        return next((issue["number"] for issue in issues if issue["title"] == title), None)


def keep_issue(github: GitHub, title: str, text: str, *, needed: bool) -> None:
    """Open an issue or update it while it is needed, close it otherwise, and print its address.

    Raises:
        click.ClickException: GitHub refuses, or does not answer.
    """
    try:
        address = github.open_issue(title, text) if needed else github.close_issue(title, text)
    except HostError as error:
        raise click.ClickException(str(error)) from None
    if address:
        click.echo(address)


def fitting(text: str) -> str:
    """A text within GitHub's limit: whole, or cut after a line with a note."""
    if len(text) <= MOST:
        return text
    kept = text[: MOST - len(_CUT)]
    return (kept.rpartition("\n")[0] or kept) + _CUT


@click.command()
@click.option("--pull", type=click.IntRange(min=1), required=True, help="Number of the pull or merge request.")
@click.option("--only-edit", is_flag=True, help="Update an existing comment, but do not add one.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def comment(pull: int, only_edit: bool, file: Path) -> None:
    """Post a Markdown FILE as a comment on a pull or merge request, replacing this command's earlier comment.

    On GitHub it reads GITHUB_REPOSITORY, GITHUB_TOKEN and, for a GitHub Enterprise Server, GITHUB_API_URL. In a
    pipeline of GitLab (GITLAB_CI) it reads CI_API_V4_URL, CI_PROJECT_ID and TIDEMILL_GITLAB_TOKEN. Exits 1 if the host
    refuses or does not answer, 2 if an argument is wrong.
    """
    host = (GitLab if os.environ.get("GITLAB_CI") else GitHub).of_environment(os.environ)
    try:
        address = host.comment(pull, file.read_text(encoding="utf-8"), MARK, only_edit=only_edit)
    except HostError as error:
        raise click.ClickException(str(error)) from None
    if address:
        click.echo(address)
