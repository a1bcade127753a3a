"""Cloud Run in the daemon: services run as processes, and answer at `<daemon>/a.run.app/<location>/<name>`.

A caller needs `run.routes.invoke` on the service. Ingress settings are not emulated: every caller is on this machine.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from localcloud.gcp.compute.api import Compute
from localcloud.gcp.compute.metadata import CLOUD_PLATFORM, Metadata
from localcloud.gcp.functions.process import Process
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError
from localcloud.machines.images import PullError

Json = dict[str, Any]
LONGEST_SECONDS = 300.0
"""The wall-clock limit of a call here, so that no test waits longer, even if the service's own timeout is longer."""
OVERRIDES = ("compute", "monitoring", "storage", "logging", "pubsub", "secretmanager", "artifactregistry")
PASSED_ON = "x-cloudscheduler"
"""The beginning of headers that a program gets besides the body's type."""


class DeployError(Exception):
    """A deployment names something that cannot be run."""


@dataclass(frozen=True)
class Program:
    """A service's program.

    Attributes:
        command: The program and its arguments.
        folder: Where it runs.
        variables: Its own variables.
        seconds: The limit of a call.
    """

    command: Sequence[str]
    folder: Path
    variables: Mapping[str, str]
    seconds: float


class Deployments(Plugin):
    """The calls that create, change and delete something that runs as a process.

    Attributes:
        kind: The collection in the API, and the query parameter with a new one's name.
    """

    kind: ClassVar[tuple[str, str]]

    def handle(self, request: Request) -> Response | None:
        """Deploy and remove; the generic server answers the rest."""
        verb = request.call.id.rpartition(".")[2]
        collection, parameter = self.kind
        if not request.call.id.endswith(f".{collection}.{verb}") or verb not in ("create", "patch", "delete"):
            return None
        name = self._site.full_name(self.apis[0], request.call.name)
        name += f"/{request.call.params[parameter]}" if verb == "create" else ""
        if verb == "delete":
            answer = self._site.default(request)
            self.remove(name)
            return answer
        before = self._site.resources.get(name)
        answer = self._site.default(request)
        try:
            self.deploy(name)
        except (DeployError, PullError, RestError, KeyError) as error:
            self._site.resources.delete(name) if before is None else self._site.resources.put(name, before)
            raise RestError(400, f"Could not build or deploy {name.rpartition('/')[2]}: {error}") from None
        operation = answer.json()
        operation["response"] = {**operation.get("response", {}), **(self._site.resources.get(name) or {})}
        return Response.of(operation)

    def deploy(self, name: str) -> None:
        """Make what a stored resource describes.

        Raises:
            DeployError: It cannot be run.
        """
        raise NotImplementedError

    def remove(self, name: str) -> None:
        """End what runs for a resource that is gone."""
        raise NotImplementedError


class RunServices(Deployments):
    """Services, those behind functions included."""

    apis = ("run",)
    kind = ("services", "serviceId")

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._lock = threading.Lock()
        self._processes: dict[str, tuple[Process, float]] = {}
        self._pool = ThreadPoolExecutor(1, "run")

    def deploy(self, name: str) -> None:
        """Find the image of a service's one container, and start it with the first call."""
        template = (self._site.resources.get(name) or {})["template"]
        (container,) = template["containers"]
        image = self._site.plugin(Compute).registry.find(container["image"])
        config = image.config if image else {}
        root = image.root if image else Path("/")
        # https://cloud.google.com/run/docs/configuring/services/containers#configure-entrypoint
        command = container.get("command") or config.get("Entrypoint") or []
        words = container.get("args") or ([] if "command" in container else config.get("Cmd") or [])
        if not command:
            raise DeployError(f"{container['image']} names no command")
        variables = {**(image.variables if image else {}), **_variables(container)}
        seconds = float(template.get("timeout", "300s").removesuffix("s"))
        location, short = name.split("/")[4], name.split("/")[6]
        folder = self._site.state / "run" / short
        folder.mkdir(parents=True, exist_ok=True)
        argv = [str(root / command[0].lstrip("/")), *command[1:], *words]
        uri = self.run(name, Program(argv, folder, variables, seconds), template.get("serviceAccount", ""))
        ready = {"type": "Ready", "state": "CONDITION_SUCCEEDED"}
        made = {"uri": uri, "urls": [uri], "reconciling": False, "terminalCondition": ready, "conditions": [ready]}
        made["latestReadyRevision"] = f"projects/{self._site.project}/locations/{location}/services/{short}/revisions/1"
        self._site.resources.change(name, lambda value: value.update(made))

    def run(self, name: str, program: Program, account: str) -> str:
        """Run a program for a service from now on, in place of the previous one. Returns the service's address.

        Args:
            name: The service's full name.
            program: The program.
            account: Its service account.

        Raises:
            DeployError: The account does not exist.
        """
        if not self._site.account_exists(account):
            raise DeployError(f"service account {account!r} does not exist")
        location, short = name.split("/")[4], name.split("/")[6]
        environment = {
            **program.variables,
            "K_SERVICE": short,
            "GOOGLE_CLOUD_PROJECT": self._site.project,
            "GOOGLE_BASE_URL": f"{self._site.url}/storage",
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": f"{self._site.url}/{api}/" for api in OVERRIDES},
        }
        metadata = Metadata(lambda: self._facts(account), lambda: self._site.tokens.issue(f"serviceAccount:{account}"))
        self.remove(name)
        with self._lock:
            process = Process(program.command, program.folder, environment, metadata)
            self._processes[name] = process, min(program.seconds, LONGEST_SECONDS)
        return f"{self._site.url}/a.run.app/{location}/{short}"

    def _facts(self, account: str) -> Json:
        described = {"email": account, "scopes": f"{CLOUD_PLATFORM}\n", "aliases": "default"}
        return {
            "instance": {"service-accounts": {"default": described, account: described}},
            "project": {"project-id": self._site.project, "numeric-project-id": str(self._site.number)},
        }

    def invoke(self, name: str, request: Request) -> Response:
        """Call a service for a caller who passed the check."""
        with self._lock:
            process, seconds = self._processes.get(name, (None, 0.0))
        if process is None:
            return Response(404, b"Page not found")
        headers = {key: text for key, text in request.headers.items() if key.startswith((PASSED_ON, "content-type"))}
        answer = process.call(request.method, request.body, headers, seconds, self._spawn)
        self._keep_lines(name, process.lines())
        return answer

    def _spawn(self, *arguments: Any, **named: Any) -> Any:
        return self._pool.submit(*arguments, **named).result()

    def _keep_lines(self, name: str, lines: list[str]) -> None:
        """Send printed lines to Cloud Logging; a line that is a JSON object becomes jsonPayload."""
        labels = {"project_id": self._site.project, "location": name.split("/")[4], "service_name": name.split("/")[6]}
        entries = [{
            "logName": f"projects/{self._site.project}/logs/run.googleapis.com%2Fstdout",
            "resource": {"type": "cloud_run_revision", "labels": labels},
            **_payload(line),
        } for line in lines]  # fmt: skip
        if entries:
            self._site.call(self._site.owner(), "logging", "POST", "v2/entries:write", {"entries": entries})

    def remove(self, name: str) -> None:
        with self._lock:
            process, _ = self._processes.pop(name, (None, 0.0))
        if process:
            process.close()

    def stop(self) -> None:
        for name in list(self._processes):
            self.remove(name)
        self._pool.shutdown(wait=False, cancel_futures=True)


class Invocations(Plugin):
    """The services' own addresses."""

    apis = ("a.run.app",)
    raw = True

    def handle(self, request: Request) -> Response:
        """Check the caller and call the service."""
        location, _, rest = request.path.partition("/")
        service = service_name(self._site.project, location, rest.partition("/")[0])
        self._site.policy.check(request.principal, "run.routes.invoke", service)
        return self._site.plugin(RunServices).invoke(service, request)


def service_name(project: str, location: str, short: str) -> str:
    """Full name of a Cloud Run service."""
    return f"run/projects/{project}/locations/{location}/services/{short}"


def _variables(container: Json) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container.get("env", [])}


def _payload(line: str) -> Json:
    """https://cloud.google.com/run/docs/logging#container-logs"""
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return {"textPayload": line}
    severity = {"severity": value.pop("severity")} if isinstance(value.get("severity"), str) else {}
    return {"jsonPayload": value, **severity}
