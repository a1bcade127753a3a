"""The daemon: one process, one port on 127.0.0.1, `/<api>/<path of the API>`.

A request is authenticated, routed and validated from the discovery document, then its permission is checked. After
that a plug-in or the generic server answers it. A plug-in is a class:

    class PubSub:
        apis = ("pubsub",)
        raw = False                     # True: it gets every request of its APIs unrouted, and asks permissions itself
        def __init__(self, site: Site)
        def handle(self, request: Request) -> Response | None      # None: the generic server's
        controls: dict[str, Callable[[dict], Any]]                 # optional: POST /_localcloud/<name>
        def health(self) -> dict; def stop(self) -> None           # optional

`site.default(request)` is what the generic server answers: validated, stored, and with a finished operation.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localcloud import daemon
from localcloud.gcp import discovery, permissions, seed
from localcloud.gcp.clock import Clock
from localcloud.gcp.iam import Policy
from localcloud.gcp.resources import Resources
from localcloud.gcp.rest import Rest
from localcloud.gcp.tokens import Tokens
from localcloud.gcp.wire import Request, Response, RestError, ServedApi, listen

PLUGINS: tuple[str, ...] = (
    "localcloud.gcp.storage:Storage",
    "localcloud.gcp.pubsub.plugin:PubSubPlugin",
    "localcloud.gcp.monitoring:Monitoring",
    "localcloud.gcp.logs:Logs",
    "localcloud.gcp.secrets:Secrets",
    "localcloud.gcp.images:Images",
    "localcloud.gcp.filestore:Filestore",
    "localcloud.gcp.advice:CapacityAdvisor",
    "localcloud.gcp.compute.api:Compute",
    "localcloud.gcp.functions.plugin:Functions",
    "localcloud.gcp.functions.plugin:Invocations",
    "localcloud.gcp.functions.scheduler:CloudScheduler",
)
"""`module:Class` of every active service, in the order in which they are asked and started."""
STOP_SECONDS = 8.0


class Site:
    """The parts that all services of one emulated project share.

    Attributes:
        project, number, region: The project's id and number, and the region of the settings.
        state: Folder of credentials, logs and service data.
        url: Address of the daemon, `http://127.0.0.1:PORT`.
        options: The daemon's options.
    """

    def __init__(self, options: argparse.Namespace, port: int) -> None:
        self.options = options
        self.state: Path = options.state.resolve()
        self.port, self.url = port, f"http://127.0.0.1:{port}"
        self.project, self.number, self.region = seed.PROJECT, seed.NUMBER, seed.REGION
        self.clock = Clock(options.time_factor)
        self.resources = Resources()
        self.tokens = Tokens(options.token_seconds)
        self.policy = Policy(self.resources, self.project, self.clock)
        self.plugins: list[Any] = []
        self._rest = Rest(self)

    def full_name(self, api: str, name: str) -> str:
        """A resource's full name in `resources`: the project appears by id, a bucket as `projects/_/buckets/b`."""
        name = re.sub(r"^b(?:/|$)", "projects/_/buckets/", name).rstrip("/") if api == "storage" else name
        name = re.sub(r"^(projects/_/buckets/[^/]+)/o(?:/|$)", r"\1/objects/", name)
        name = re.sub(rf"^projects/(?:{self.number}|-)(?=/|$)", f"projects/{self.project}", name)
        return f"{api}/{name}".rstrip("/")

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
            if getattr(plugin, "raw", False) and (answer := plugin.handle(request)) is not None:
                return answer
        request.call = discovery.understand(request)
        self._permit(request)
        for plugin in concerned:
            if not getattr(plugin, "raw", False) and (answer := plugin.handle(request)) is not None:
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

    def account_exists(self, email: str) -> bool:
        """Whether a service account of that name exists."""
        return self.resources.get(f"iam/projects/{self.project}/serviceAccounts/{email}") is not None


class GcpDaemon:
    """The running daemon with everything of one emulated project."""

    def __init__(self, options: argparse.Namespace) -> None:
        options.state.mkdir(parents=True, exist_ok=True)
        with listen(options.port) as listening:
            self.site = Site(options, listening.getsockname()[1])
            seed.fill(self.site)
            self.controls: dict[str, Callable[[dict[str, Any]], Any]] = {
                "health": lambda _: self._health(),
                "calls": self.site.policy.calls,
                "denied": self.site.policy.denied,
                "token": lambda wanted: self.site.tokens.issue(wanted["principal"]),
                "credentials": self._credentials,
                "adopt": self._adopt,
                "resources": lambda wanted: {name: self.site.resources.get(name) for name in
                                             self.site.resources.names(wanted.get("prefix", ""))},
            }  # fmt: skip
            for place in PLUGINS:
                module, _, name = place.partition(":")
                plugin = getattr(importlib.import_module(module), name)(self.site)
                self.site.plugins.append(plugin)
                self.controls |= getattr(plugin, "controls", {})
            self._served = ServedApi(listening, self._handle, self.site.clock.now)

    @property
    def port(self) -> int:
        """The port that it serves."""
        return self.site.port

    def _handle(self, request: Request) -> Response:
        if request.api != "_localcloud":
            return self.site.handle(request)
        if request.path not in self.controls:
            raise RestError(404, f"no control {request.path!r}; there are {', '.join(sorted(self.controls))}")
        try:
            return Response.of(self.controls[request.path](request.json()))
        except (KeyError, ValueError, TypeError) as error:
            raise RestError(400, f"{request.path}: {error!r}") from None

    def _health(self) -> dict[str, Any]:
        parts = [getattr(plugin, "health", dict)() for plugin in self.site.plugins]
        return {"status": "ok", **{key: value for part in parts for key, value in part.items()}}

    def _credentials(self, wanted: dict[str, Any]) -> dict[str, str]:
        """A service-account file of an account, `{"email": …}`."""
        if not self.site.account_exists(wanted["email"]):
            raise ValueError(f"there is no service account {wanted['email']}")
        return self.site.tokens.key_file(wanted["email"], self.site.project, self.site.url)

    def _adopt(self, wanted: dict[str, Any]) -> None:
        """Register resources that no call has made, owned by the deployer: `{"names": ["storage/…"]}`."""
        owner = {"role": "roles/owner", "members": [f"serviceAccount:{seed.DEPLOYER}"]}
        for name in wanted["names"]:
            if self.site.resources.get(name) is None:
                self.site.resources.put(name, {"name": name.rpartition("/")[2]})
                self.site.resources.set_policy(name, {"version": 1, "etag": "BwA=", "bindings": [owner]})

    def stop(self) -> None:
        """End the plug-ins, last first and within a time limit, then the socket."""
        for plugin in reversed(self.site.plugins):
            ending = threading.Thread(target=getattr(plugin, "stop", lambda: None), daemon=True)
            ending.start()
            ending.join(STOP_SECONDS)
        self._served.close()


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """The daemon's options; a plug-in's class adds its own in `options`: name → (default, help)."""
    parser = argparse.ArgumentParser(prog="python -m localcloud.gcp.serve", description="A GCP on 127.0.0.1.")
    parser.add_argument("--state", type=Path, required=True, help="folder of credentials and logs")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--time-factor", type=float, default=1.0, help="how fast the cloud's clock runs (1)")
    parser.add_argument("--apis", choices=["enabled", "disabled"], default="enabled", help="of a new project (enabled)")
    parser.add_argument("--token-seconds", type=float, default=3600.0, help="how long a token is valid (3600)")
    for place in PLUGINS:
        module, _, name = place.partition(":")
        options = getattr(getattr(importlib.import_module(module), name), "options", {})
        for option, (default, text) in options.items():
            kind = daemon.yes if isinstance(default, bool) else type(default)
            flag = f"--{option.replace('_', '-')}"
            parser.add_argument(flag, type=kind, default=default, help=f"{text} ({default})".replace("%", "%%"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    daemon.serve(GcpDaemon, parse(argv))


if __name__ == "__main__":
    main()
