"""Writes CI's review on GitLab: one note per merge request, edited in place.

Uses the REST API (https://docs.gitlab.com/api/notes/#merge-requests) with the address from the pipeline's environment
(https://docs.gitlab.com/ci/variables/predefined_variables/) and a token of the project, because a job's own token may
not write notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click
import requests

MOST = 1_000_000
"""Characters of a note. Source: https://docs.gitlab.com/administration/instance_limits/#size-of-comments-and-descriptions"""
TOKEN = "TIDEMILL_GITLAB_TOKEN"

_TIMEOUT_SECONDS = 30
_PAGE = 100
_CUT = "\n\n… Cut here: GitLab accepts no more.\n"


class GitLabError(Exception):
    """GitLab refused a request or did not answer; the text has the request and the answer."""


class GitLab:
    """Notes on the merge requests of one project.

    Args:
        api: Of the instance, such as https://gitlab.com/api/v4.
        project: Its number.
        token: A project access token with the scope `api`.
    """

    def __init__(self, api: str, project: str, token: str) -> None:
        self._base = f"{api.rstrip('/')}/projects/{project}"
        self._session = requests.Session()
        self._session.headers.update({"PRIVATE-TOKEN": token})

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> GitLab:
        """The project that a pipeline runs for.

        Raises:
            click.UsageError: CI_API_V4_URL, CI_PROJECT_ID or the token is not set.
        """
        api, project, token = (environment.get(name, "") for name in ("CI_API_V4_URL", "CI_PROJECT_ID", TOKEN))
        if not api.startswith("https://") and not api.startswith("http://127.0.0.1:"):
            raise click.UsageError(f"CI_API_V4_URL is {api!r}, not the address of GitLab's API.")
        if not project.isdigit():
            raise click.UsageError(f"CI_PROJECT_ID is {project!r}, not a number.")
        if not token:
            text = "make it a masked variable with a project access token of the scope api (docs/ci.md)"
            raise click.UsageError(f"{TOKEN} is not set; {text}.")
        return cls(api, project, token)

    def comment(self, pull: int, body: str, mark: str, *, only_edit: bool = False) -> str | None:
        """Write the note of a merge request that begins with a mark, or edit the token's existing one; return the
        number of the note.

        Args:
            pull: The merge request's number in its project.
            mark: An HTML comment, which GitLab does not show.
            only_edit: If there is no note yet, write none and return None.
        """
        notes = f"merge_requests/{pull}/notes"
        whole = f"{mark}\n{body}"
        text = {"body": whole if len(whole) <= MOST else whole[: MOST - len(_CUT)] + _CUT}
        mine = self._call("GET", self._root("user"))["id"]
        for existing in self._pages(notes):
            if existing["body"].startswith(mark) and existing["author"]["id"] == mine:
                return str(self._call("PUT", f"{self._base}/{notes}/{existing['id']}", text)["id"])
        return None if only_edit else str(self._call("POST", f"{self._base}/{notes}", text)["id"])

    def _root(self, path: str) -> str:
        return f"{self._base.rpartition('/projects/')[0]}/{path}"

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        page, items = 1, [{}] * _PAGE
        while len(items) == _PAGE:
            query = {"per_page": str(_PAGE), "page": str(page)}
            items = self._call("GET", f"{self._base}/{path}", query=query)
            yield from items
            page += 1

    def _call(self, method: str, address: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        try:
            answer = self._session.request(
                method, address, json=body, params=query, timeout=_TIMEOUT_SECONDS, allow_redirects=False
            )
        except requests.RequestException as error:
            raise GitLabError(f"{method} {address}: {error}") from None
        if answer.status_code not in (200, 201):
            raise GitLabError(f"{method} {address}: {answer.status_code} {answer.text[:300]}")
        return answer.json()
