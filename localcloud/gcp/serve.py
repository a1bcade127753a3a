"""The daemon: one process, one port on 127.0.0.1, `/<api>/<path of the API>`.

A request is authenticated, routed and validated from the discovery document, then its permission is checked. After
that a plug-in or the generic server answers it.
"""

from __future__ import annotations

import argparse
import importlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localcloud import daemon
from localcloud.gcp import seed
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError, ServedApi, listen

PLUGINS: tuple[str, ...] = (
    "localcloud.gcp.storage.plugin:Storage",
    "localcloud.gcp.pubsub.plugin:PubSubPlugin",
    "localcloud.gcp.monitoring:Monitoring",
    "localcloud.gcp.logs:Logs",
    "localcloud.gcp.secrets:Secrets",
    "localcloud.gcp.images:Images",
    "localcloud.gcp.filestore:Filestore",
    "localcloud.gcp.advice:CapacityAdvisor",
    "localcloud.gcp.machine_types:MachineTypes",
    "localcloud.gcp.compute.api:Compute",
    "localcloud.gcp.functions.plugin:Functions",
    "localcloud.gcp.functions.services:RunServices",
    "localcloud.gcp.functions.services:Invocations",
    "localcloud.gcp.functions.scheduler:CloudScheduler",
)
"""`module:Class` of every active service, in the order in which they are asked and started."""
STOP_SECONDS = 8.0


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
                "restore": self._restore,
                "resources": lambda wanted: {name: self.site.resources.get(name) for name in
                                             self.site.resources.names(wanted.get("prefix", ""))},
            }  # fmt: skip
            for place in PLUGINS:
                module, _, name = place.partition(":")
                plugin: Plugin = getattr(importlib.import_module(module), name)(self.site)
                self.site.plugins.append(plugin)
                self.controls |= plugin.controls
            self._served = ServedApi(listening, self._handle, self.site.clock.now)

    @property
    def port(self) -> int:
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
        parts = [plugin.health() for plugin in self.site.plugins]
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

    def _restore(self, wanted: dict[str, Any]) -> None:
        """Register what another run's `resources` told, as records alone: no machine starts."""
        for name, value in wanted["resources"].items():
            if self.site.resources.get(name) is None:
                self.site.resources.put(name, value)

    def stop(self) -> None:
        """End the plug-ins, last first and within a time limit, then the socket."""
        for plugin in reversed(self.site.plugins):
            ending = threading.Thread(target=plugin.stop, daemon=True)
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
        options = getattr(importlib.import_module(module), name).options
        for option, (default, text) in options.items():
            kind = daemon.yes if isinstance(default, bool) else type(default)
            flag = f"--{option.replace('_', '-')}"
            parser.add_argument(flag, type=kind, default=default, help=f"{text} ({default})".replace("%", "%%"))
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    daemon.serve(GcpDaemon, parse(argv))


if __name__ == "__main__":
    main()
