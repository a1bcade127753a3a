"""Writes CI's review on GitLab: one note per merge request, edited in place.

Uses the REST API (https://docs.gitlab.com/api/notes/#merge-requests) with the address from the pipeline's environment
(https://docs.gitlab.com/ci/variables/predefined_variables/) and a token of the project, because a job's own token may
not write notes.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from ops.ci.rest import Rest

MOST = 1_000_000
"""Characters of a note. Source: https://docs.gitlab.com/administration/instance_limits/#size-of-comments-and-descriptions"""
TOKEN = "TIDEMILL_GITLAB_TOKEN"

_CUT = "\n\n… Cut here: GitLab accepts no more.\n"


class GitLab:
    """Notes on the merge requests of one project.

    Args:
        api: Of the instance, such as https://gitlab.com/api/v4.
        project: Its number.
        token: A project access token with the scope `api`.
    """

    def __init__(self, api: str, project: str, token: str) -> None:
        self._project = f"projects/{project}"
        self._rest = Rest(api.rstrip("/"), {"PRIVATE-TOKEN": token}, redirects=False)

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
        notes = f"{self._project}/merge_requests/{pull}/notes"
        whole = f"{mark}\n{body}"
        text = {"body": whole if len(whole) <= MOST else whole[: MOST - len(_CUT)] + _CUT}
        mine = self._rest.call("GET", "user")["id"]
        for existing in self._rest.pages(notes):
            if existing["body"].startswith(mark) and existing["author"]["id"] == mine:
                return str(self._rest.call("PUT", f"{notes}/{existing['id']}", text)["id"])
        return None if only_edit else str(self._rest.call("POST", notes, text)["id"])
