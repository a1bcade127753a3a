"""Secret Manager: versions of a secret, their data, and `latest`."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError, stamp


class Secrets(Plugin):
    """The plug-in: keeps the data of secrets, which the generic server cannot know."""

    apis = ("secretmanager",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._data: dict[str, str] = {}

    def handle(self, request: Request) -> Response | None:
        """Add a version, return its data, or destroy it."""
        actions = {"addVersion": self._add, "access": self._access, "destroy": self._destroy}
        action = actions.get(request.call.method.verb)
        return Response.of(action(request)) if action else None

    def _add(self, request: Request) -> dict[str, Any]:
        name = self._site.full_name("secretmanager", request.call.name)
        if self._site.resources.get(name) is None:
            raise RestError(404, f"Secret [{request.call.name}] not found.")
        data = request.call.body["payload"].get("data", "")
        try:
            base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise RestError(400, f"Invalid value at 'payload.data': {error}", field="payload.data") from None
        version = f"{name}/versions/{len(self._site.resources.list(f'{name}/versions')) + 1}"
        made = stamp(self._site.clock.now())
        value = {"name": version.partition("/")[2], "createTime": made, "state": "ENABLED"}
        self._data[version] = data
        self._site.resources.put(version, value)
        return value

    def _destroy(self, request: Request) -> dict[str, Any]:
        """Source: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/destroy"""
        version = self._site.full_name("secretmanager", request.call.name)
        if (found := self._site.resources.get(version)) is None:
            raise RestError(404, f"Secret Version [{request.call.name}] not found.")
        self._data.pop(version, None)
        value = {**found, "state": "DESTROYED", "destroyTime": stamp(self._site.clock.now())}
        self._site.resources.put(version, value)
        return value

    def _access(self, request: Request) -> dict[str, Any]:
        """Source: https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access"""
        version = self._site.full_name("secretmanager", request.call.name)
        secret, _, number = version.rpartition("/")
        if number == "latest":
            numbers = [int(name.rpartition("/")[2]) for name, _ in self._site.resources.list(secret)]
            version = f"{secret}/{max(numbers, default=0)}"
        found = self._site.resources.get(version)
        if found is None:
            raise RestError(404, f"Secret Version [{request.call.name}] not found.")
        if found["state"] != "ENABLED":
            text = f"Secret Version [{found['name']}] is in {found['state']} state."
            raise RestError(400, text, "FAILED_PRECONDITION")
        return {"name": found["name"], "payload": {"data": self._data[version]}}
