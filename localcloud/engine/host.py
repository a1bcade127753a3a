# ruff: noqa: N802  (the methods are named by the protocol)
"""A stand-in for the vendor's `pulumi-language-python`: the engine's LanguageRuntime service in Python.

It runs a program with `pulumi-language-python-exec`, a policy pack with `python -m pulumi.policy`, and the folder of a
component package with `python`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import grpc
from google.protobuf import empty_pb2, json_format
from pulumi.runtime.proto import language_pb2, language_pb2_grpc, plugin_pb2

from localcloud.processes import serve_plugin

BAIL = 32  # the executor's exit code for "the error is already reported"


def interpreter(info: language_pb2.ProgramInfo) -> str:
    """Return the program's Python: that of the virtual environment in Pulumi.yaml's options if it exists, or ours."""
    options = json_format.MessageToDict(info.options) if info.HasField("options") else {}
    if name := options.get("virtualenv"):
        found = Path(info.root_directory, name, "bin", "python")
        if found.exists():
            return str(found)
    return sys.executable


class LanguageHost(language_pb2_grpc.LanguageRuntimeServicer):
    """The parts of LanguageRuntime that previews, updates, destroys, policy packs and component packages need."""

    def __init__(self, engine: str, executor: str) -> None:
        self._engine, self._executor = engine, executor
        self.children: set[subprocess.Popen[bytes]] = set()

    def Handshake(self, request: Any, context: Any) -> Any:
        self._engine = request.engine_address or self._engine
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: Any) -> Any:
        return plugin_pb2.PluginInfo(version="3.0.0")

    def About(self, request: Any, context: Any) -> Any:
        return language_pb2.AboutResponse(executable=sys.executable, version=sys.version.split()[0])

    def GetRequiredPackages(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPackagesResponse()

    def GetRequiredPlugins(self, request: Any, context: Any) -> Any:
        return language_pb2.GetRequiredPluginsResponse()

    def GetProgramDependencies(self, request: Any, context: Any) -> Any:
        return language_pb2.GetProgramDependenciesResponse()

    def InstallDependencies(self, request: Any, context: Any) -> Iterator[Any]:
        yield language_pb2.InstallDependenciesResponse()

    def Cancel(self, request: Any, context: Any) -> Any:
        self.stop()
        return empty_pb2.Empty()

    def Run(self, request: Any, context: Any) -> Any:
        """Run the program once. Its output goes where ours goes, and the engine shows it."""
        command = self.command(request)
        environment = {**os.environ, "PULUMI_CONFIG": json.dumps(dict(request.config))}
        environment["PULUMI_CONFIG_SECRET_KEYS"] = json.dumps(list(request.configSecretKeys))
        code = self._start(command, request.info.program_directory or request.pwd, environment, None).wait()
        if code == BAIL:
            return language_pb2.RunResponse(bail=True)
        return language_pb2.RunResponse(error=f"the program ended with exit code {code}" if code else "")

    def command(self, request: Any) -> list[str]:
        """Return the command that runs a program."""
        return [interpreter(request.info), "-u", self._executor, *self.arguments(request)]

    def arguments(self, request: Any) -> list[str]:
        """Return what the executor of a language is told."""
        settings = {
            "--project": request.project,
            "--stack": request.stack,
            "--organization": request.organization,
            "--monitor": request.monitor_address,
            "--engine": self._engine,
            "--pwd": request.pwd or request.info.program_directory,
            "--root_directory": request.info.root_directory,
            "--parallel": str(request.parallel),
            "--dry_run": "true" if request.dryRun else "",
        }
        given = [part for key, value in settings.items() if value for part in (key, value)]
        return [*given, request.info.entry_point or ".", *request.args]

    def RunPlugin(self, request: Any, context: Any) -> Iterator[Any]:
        """Run a policy pack or a component package and stream its output; the exit code comes last."""
        folder = request.info.program_directory
        commands = {"analyzer": ["-m", "pulumi.policy", *request.args, folder], "resource": [folder, *request.args]}
        if request.kind not in commands:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED,
                f"this language host runs {', '.join(commands)} plugins, not '{request.kind}'",
            )
        command = [interpreter(request.info), "-u", *commands[request.kind]]
        environment = {**os.environ, **dict(item.split("=", 1) for item in request.env)}
        process = self._start(command, request.pwd, environment, subprocess.PIPE)
        context.add_callback(lambda: process.poll() is None and process.terminate())
        chunks: Queue[tuple[str, bytes]] = Queue()
        for name in ("stdout", "stderr"):
            threading.Thread(target=_pump, args=(name, getattr(process, name), chunks), daemon=True).start()
        open_streams = 2
        while open_streams:
            name, data = chunks.get()
            open_streams -= not data
            if data:
                yield language_pb2.RunPluginResponse(**{name: data})  # type: ignore[arg-type]
        yield language_pb2.RunPluginResponse(exitcode=process.wait())

    def _start(
        self, command: list[str], folder: str, environment: dict[str, str], pipe: int | None
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        self.children.add(process)
        return process

    def stop(self) -> None:
        """End the processes that still run."""
        for process in self.children:
            if process.poll() is None:
                process.terminate()


def _pump(name: str, stream: Any, chunks: Queue[tuple[str, bytes]]) -> None:
    while data := os.read(stream.fileno(), 65536):
        chunks.put((name, data))
    chunks.put((name, b""))


def main(executor: str, kind: type[LanguageHost] = LanguageHost) -> None:
    """Serve until the engine ends this process. The first line on stdout is the port.

    Args:
        executor: The SDK's program runner `pulumi-language-python-exec`, which the build put next to the CLI.
        kind: The host of another language.
    """
    host = kind(next((part for part in sys.argv[1:] if not part.startswith("-")), ""), executor)
    server = grpc.server(ThreadPoolExecutor(max_workers=8))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(host, server)
    serve_plugin(server, host.stop)
    os._exit(0)
