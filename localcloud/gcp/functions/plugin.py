"""Cloud Functions (2nd gen) in the daemon: deployment builds a function, whose Cloud Run service runs as a process."""

from __future__ import annotations

import io
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from localcloud.gcp.functions.services import DeployError, Deployments, Program, RunServices, service_name
from localcloud.gcp.wire import Request

Json = dict[str, Any]
RUNTIME = Path(__file__).parent / "runtime.py"


class Functions(Deployments):
    apis = ("cloudfunctions",)
    kind = ("functions", "functionId")

    def deploy(self, name: str) -> None:
        """Unpack the source and make the service behind the function."""
        function = self._site.resources.get(name) or {}
        build, service = function["buildConfig"], function.get("serviceConfig", {})
        source = build["source"]["storageSource"]
        path = f"b/{quote(source['bucket'], safe='')}/o/{quote(source['object'], safe='')}"
        owner = self._site.owner()  # Google reads sources itself, and needs no grant of the project.
        archive = self._site.serve(Request("storage", "GET", path, {"alt": ["media"]}, {}, b"", owner))
        location, short = name.split("/")[4], name.split("/")[6]
        folder = self._site.state / "functions" / short
        _unpack(folder, archive.body)
        run = service_name(self._site.project, location, short)
        command = [sys.executable, str(RUNTIME), build["entryPoint"]]
        variables = {**service.get("environmentVariables", {}), "FUNCTION_TARGET": build["entryPoint"]}
        seconds = float(service.get("timeoutSeconds", 60))
        account = service.get("serviceAccountEmail", "")
        program = Program(command, folder, variables, seconds)
        uri = self._site.plugin(RunServices).run(run, program, account)
        added = {"uri": uri, "service": run.partition("/")[2]}
        self._site.resources.change(name, lambda value: _deployed(value, uri, added))
        if self._site.resources.get(run) is None:
            self._site.resources.put(run, {"name": run.partition("/")[2], "uri": uri, "ingress": "INGRESS_TRAFFIC_ALL"})

    def remove(self, name: str) -> None:
        run = service_name(self._site.project, name.split("/")[4], name.split("/")[6])
        self._site.plugin(RunServices).remove(run)
        self._site.resources.delete(run)


def _unpack(folder: Path, archive: bytes) -> None:
    """Unpack a source, a zip with `main.py` at its root, into a folder, which is emptied.

    Raises:
        DeployError: The archive has no main.py that can be compiled.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as source:
            source.extractall(folder)
        text = (folder / "main.py").read_text()
        compile(text, "main.py", "exec")
    except (zipfile.BadZipFile, OSError, SyntaxError, ValueError) as error:
        raise DeployError(f"Build failed: {error}") from None


def _deployed(function: Json, uri: str, service: Json) -> None:
    function.update(state="ACTIVE", url=uri, serviceConfig={**function.get("serviceConfig", {}), **service})
