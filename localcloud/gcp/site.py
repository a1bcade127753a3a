"""A project that answers requests, and the plug-ins with which it does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from localcloud.gcp import discovery, permissions
from localcloud.gcp.project import Project
from localcloud.gcp.rest import Rest
from localcloud.gcp.wire import Request, Response, RestError

Service = TypeVar("Service", bound="Plugin")


class Plugin:
    """An active service.

    Attributes:
        apis: What it is asked about.
        raw: It gets every request of its APIs unrouted, and asks permissions itself.
        options: Its options of the daemon: name → (default, help).
        controls: What `POST /_localcloud/<name>` calls.
    """

    apis: ClassVar[tuple[str, ...]] = ()
    raw = False
    options: ClassVar[dict[str, tuple[Any, str]]] = {}

    def __init__(self, site: Site) -> None:
        self._site = site
        self.controls: dict[str, Callable[[dict[str, Any]], Any]] = {}

    def handle(self, request: Request) -> Response | None:
        """Answer a request. None leaves it to the generic server, `site.default`, which validates and stores, and
        answers with a finished operation."""

    def health(self) -> dict[str, Any]:
        """Its part of the health report."""
        return {}

    def stop(self) -> None:
        """End what it started."""


class Site(Project):
    """A project with its services: they answer requests."""

    def __init__(self, options: argparse.Namespace, port: int) -> None:
        super().__init__(options, port)
        self.plugins: list[Plugin] = []
        self._rest = Rest(self)

    def plugin(self, kind: type[Service]) -> Service:
        """The plug-in of a class."""
        return next(plugin for plugin in self.plugins if isinstance(plugin, kind))

    def handle(self, request: Request) -> Response:
        """Answer a request from outside; its token identifies the caller."""
        if request.api == "token":
            return self.tokens.exchange(request, self.account_exists)
        request.principal = self.tokens.authenticate(request)
        return self.serve(request)

    def serve(self, request: Request) -> Response:
        """Answer a request of a known principal; also for internal calls, such as a service agent's."""
        concerned = [plugin for plugin in self.plugins if request.api in plugin.apis]
        for plugin in concerned:
            if plugin.raw and (answer := plugin.handle(request)) is not None:
                return answer
        request.call = discovery.understand(request)
        self._permit(request)
        for plugin in concerned:
            if not plugin.raw and (answer := plugin.handle(request)) is not None:
                return answer
        return self.default(request)

    def _permit(self, request: Request) -> None:
        """Check the permissions of the method, and the use of accounts as which something will run."""
        full = self.full_name(request.api, request.call.name)
        for wanted in permissions.permissions(request.call):
            self.policy.check(request.principal, wanted, permissions.resource(request.call, full))
        for email in permissions.acting(request.call):
            account = f"iam/projects/{self.project}/serviceAccounts/{email}"
            self.policy.check(request.principal, "iam.serviceAccounts.actAs", account)
        service = f"{request.api}.googleapis.com"
        found = self.resources.get(f"serviceusage/projects/{self.project}/services/{service}") or {}
        if found.get("state") != "ENABLED":
            text = f"{service} has not been used in project {self.project} before or it is disabled."
            raise RestError(403, f"{text} Enable it and retry.", reason="SERVICE_DISABLED")

    def default(self, request: Request) -> Response:
        """The generic server's answer to a parsed and permitted request."""
        return self._rest.handle(request)

    def finished(self, request: Request, what: str) -> Response:
        """The finished operation on the resource that a call names."""
        name = self.full_name(request.api, request.call.name)
        return Response.of(self._rest.answer(request.call, name, what))

    def call(self, principal: str, api: str, method: str, path: str, body: Any = None) -> Any:
        """Make an internal call as a principal. Returns its JSON.

        Raises:
            RestError: The error that a client would get.
        """
        content = b"" if body is None else json.dumps(body).encode()
        path, _, query = path.partition("?")
        pairs = {key: [value] for key, _, value in (part.partition("=") for part in query.split("&") if part)}
        answer = self.serve(Request(api, method, path, pairs, {}, content, principal))
        return answer.json()
