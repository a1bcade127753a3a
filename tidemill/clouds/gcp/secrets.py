"""Personal secrets in Google's Secret Manager: one secret of the stack, whose newest version holds all of them."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any

from tidemill.clouds.gcp.session import GoogleSession, MissingError
from tidemill.errors import CloudError
from tidemill.secrets.rules import read_document, write_document
from tidemill.secrets.secret_store import SecretStore


class GcpSecrets(SecretStore):
    """The secret with this full name, `projects/<project>/secrets/<id>`."""

    def __init__(self, session: GoogleSession, name: str) -> None:
        self._session, self._name = session, name

    @property
    def place(self) -> str:
        return self._name

    def read(self) -> dict[str, str]:
        action = "secretmanager.versions.access"
        try:
            found = self._session.call("secretmanager", "GET", f"v1/{self._name}/versions/latest:access", action=action)
            return read_document(base64.b64decode(found["payload"]["data"]))
        except MissingError:
            # A secret has no version until the first is set.
            return {}
        except ValueError as error:
            raise CloudError(f"{self._name} is damaged: {error}.", "Ask the stack's owner.") from None

    def change(self, values: Mapping[str, str], removed: Collection[str] = ()) -> None:
        kept = {name: value for name, value in self.read().items() if name not in removed}
        data = base64.b64encode(write_document({**kept, **values}).encode()).decode()
        made = self._session.call(
            "secretmanager",
            "POST",
            f"v1/{self._name}:addVersion",
            {"payload": {"data": data}},
            action="secretmanager.versions.add",
        )
        self._destroy_before(_number(made["name"]))

    def forget_earlier(self) -> None:
        self._destroy_before(max((_number(version["name"]) for version in self._versions()), default=0))

    def _destroy_before(self, newest: int) -> None:
        """Destroy earlier versions: each is billed, and what was removed must be gone."""
        for version in self._versions():
            if _number(version["name"]) < newest and version["state"] != "DESTROYED":
                self._session.call(
                    "secretmanager",
                    "POST",
                    f"v1/{version['name']}:destroy",
                    {},
                    action="secretmanager.versions.destroy",
                )

    def _versions(self) -> list[dict[str, Any]]:
        """The newest versions: a page has those that an interrupted change has left.

        Source: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/list
        """
        path, action = f"v1/{self._name}/versions", "secretmanager.versions.list"
        return self._session.call("secretmanager", "GET", path, action=action).get("versions", [])


def _number(version: str) -> int:
    return int(version.rpartition("/")[2])
