"""Cloud Functions (2nd gen) in the daemon: deployment builds a function, which then runs as a process.

Its address is `<daemon>/a.run.app/<location>/<name>`; a caller needs `run.routes.invoke` on its service.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from localcloud.gcp.compute.metadata import CLOUD_PLATFORM, Metadata
from localcloud.gcp.functions.process import BuildError, Process
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError

Json = dict[str, Any]
LONGEST_SECONDS = 300.0
"""The wall-clock limit of a call here, so that no test waits longer, even if the function's own timeout is longer."""
OVERRIDES = ("compute", "monitoring", "storage", "logging", "pubsub", "secretmanager")


class Functions(Plugin):
    apis = ("cloudfunctions",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._lock = threading.Lock()
        self._processes: dict[str, Process] = {}
        self._pool = ThreadPoolExecutor(1, "functions")

    def handle(self, request: Request) -> Response | None:
        """Deploy and remove functions; the generic server answers the rest."""
        verb = request.call.id.rpartition(".")[2]
        if not request.call.id.endswith(f".functions.{verb}") or verb not in ("create", "patch", "delete"):
            return None
        name = self._site.full_name("cloudfunctions", request.call.name)
        name += f"/{request.call.params['functionId']}" if verb == "create" else ""
        if verb == "delete":
            answer = self._site.default(request)
            self._remove(name)
            return answer
        before = self._site.resources.get(name)
        answer = self._site.default(request)
        try:
            self._build(name)
        except (BuildError, RestError, KeyError) as error:
            self._site.resources.delete(name) if before is None else self._site.resources.put(name, before)
            raise RestError(400, f"Could not build or deploy the function: {error}") from None
        operation = answer.json()
        operation["response"] = {**operation.get("response", {}), **(self._site.resources.get(name) or {})}
        return Response.of(operation)

    def _build(self, name: str) -> None:
        """Unpack the source and make the service behind the function."""
        function = self._site.resources.get(name) or {}
        build, service = function["buildConfig"], function.get("serviceConfig", {})
        account = service.get("serviceAccountEmail", "")
        if not self._site.account_exists(account):
            raise RestError(400, f"service account {account!r} does not exist")
        source = build["source"]["storageSource"]
        path = f"b/{quote(source['bucket'], safe='')}/o/{quote(source['object'], safe='')}"
        archive = self._site.serve(Request("storage", "GET", path, {"alt": ["media"]}, {}, b"", self._owner()))
        location, short = name.split("/")[4], name.split("/")[6]
        environment = {
            **service.get("environmentVariables", {}),
            "K_SERVICE": short,
            "FUNCTION_TARGET": build["entryPoint"],
            "GOOGLE_CLOUD_PROJECT": self._site.project,
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": f"{self._site.url}/{api}/" for api in OVERRIDES},
        }
        metadata = Metadata(lambda: self._facts(account), lambda: self._site.tokens.issue(f"serviceAccount:{account}"))
        folder = self._site.state / "functions" / short
        self._close(name)
        made = Process(folder, archive.body, build["entryPoint"], environment, metadata)
        with self._lock:
            self._processes[name] = made
        uri = f"{self._site.url}/a.run.app/{location}/{short}"
        run = service_name(self._site.project, location, short)
        added = {"uri": uri, "service": run.partition("/")[2]}
        self._site.resources.change(name, lambda value: _deployed(value, uri, added))
        if self._site.resources.get(run) is None:
            self._site.resources.put(run, {"name": run.partition("/")[2], "uri": uri, "ingress": "INGRESS_TRAFFIC_ALL"})

    def _owner(self) -> str:
        """The principal that reads sources: Google itself, which needs no grant of the project."""
        bindings = self._site.resources.policy(f"cloudresourcemanager/projects/{self._site.project}")["bindings"]
        return next(binding["members"][0] for binding in bindings if binding["role"] == "roles/owner")

    def _facts(self, account: str) -> Json:
        described = {"email": account, "scopes": f"{CLOUD_PLATFORM}\n", "aliases": "default"}
        return {
            "instance": {"service-accounts": {"default": described, account: described}},
            "project": {"project-id": self._site.project, "numeric-project-id": str(self._site.number)},
        }

    def invoke(self, location: str, short: str, request: Request) -> Response:
        """Call a function for a caller who passed the check."""
        name = f"cloudfunctions/projects/{self._site.project}/locations/{location}/functions/{short}"
        with self._lock:
            process = self._processes.get(name)
        function = self._site.resources.get(name)
        if process is None or function is None:
            return Response(404, b"Page not found")
        seconds = min(float(function.get("serviceConfig", {}).get("timeoutSeconds", 60)), LONGEST_SECONDS)
        answer = process.call(request.method, request.body, seconds, self._spawn)
        self._keep_lines(short, location, process.lines())
        return answer

    def _spawn(self, *arguments: Any, **named: Any) -> Any:
        return self._pool.submit(*arguments, **named).result()

    def _keep_lines(self, short: str, location: str, lines: list[str]) -> None:
        """Send printed lines to Cloud Logging; a line that is a JSON object becomes jsonPayload."""
        labels = {"project_id": self._site.project, "location": location, "service_name": short}
        entries = [{
            "logName": f"projects/{self._site.project}/logs/run.googleapis.com%2Fstdout",
            "resource": {"type": "cloud_run_revision", "labels": labels},
            **_payload(line),
        } for line in lines]  # fmt: skip
        if entries:
            self._site.call(self._owner(), "logging", "POST", "v2/entries:write", {"entries": entries})

    def _close(self, name: str) -> None:
        with self._lock:
            process = self._processes.pop(name, None)
        if process:
            process.close()

    def _remove(self, name: str) -> None:
        self._close(name)
        self._site.resources.delete(service_name(self._site.project, name.split("/")[4], name.split("/")[6]))

    def stop(self) -> None:
        for name in list(self._processes):
            self._close(name)
        self._pool.shutdown(wait=False, cancel_futures=True)


class Invocations(Plugin):
    """The functions' own addresses."""

    apis = ("a.run.app",)
    raw = True

    def handle(self, request: Request) -> Response:
        """Check the caller and call the function."""
        location, _, rest = request.path.partition("/")
        short = rest.partition("/")[0]
        service = service_name(self._site.project, location, short)
        self._site.policy.check(request.principal, "run.routes.invoke", service)
        functions = self._site.plugin(Functions)
        return functions.invoke(location, short, request)


def service_name(project: str, location: str, short: str) -> str:
    """Full name of the Cloud Run service behind a function."""
    return f"run/projects/{project}/locations/{location}/services/{short}"


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


def _deployed(function: Json, uri: str, service: Json) -> None:
    function.update(state="ACTIVE", url=uri, serviceConfig={**function.get("serviceConfig", {}), **service})
