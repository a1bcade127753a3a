"""Start, use and stop one localcloud: its daemon, its environment and its control paths."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from localcloud import engine
from localcloud.daemon import BOUND
from localcloud.gcp import pubsub
from localcloud.processes import LEFT_OUT, alive, descendants

ROOT = Path(__file__).parent.parent
REGION, GCP_REGION = "us-west-2", "us-central1"
PULUMI = ("PULUMI_",)
GOOGLE = ("GOOGLE_", "CLOUDSDK_", "GCE_METADATA_", "GCLOUD_PROJECT", "PUBSUB_EMULATOR_HOST")
GOOGLE_APIS = ["pubsub", "logging", "monitoring", "compute", "storage", "iam", "artifactregistry", "cloudfunctions",
               "cloudscheduler", "cloudresourcemanager", "serviceusage", "secretmanager", "cloudkms", "bigquery",
               "run", "billingbudgets", "file"]  # fmt: skip
START_SECONDS = 300.0
spawn: Callable[..., Any] = subprocess.Popen
"""Starts a daemon. Tests fork it from a process that has imported its packages."""


class CloudError(Exception):
    """The daemon is not running, or did not do what was requested."""


class Localcloud:
    """One localcloud with its state in a folder. As a context manager, it runs inside the block, and ends with this
    process if that is killed.

    `Cloud` is an AWS, and `GcpCloud` is a GCP.

    Args:
        state: Folder for credentials, logs, Pulumi's file backend and launchers; created if missing.
        port: Port on 127.0.0.1. The default is the previous port, or a free one.
        options: Options of the daemon, with underscores: ``Cloud(path, reclaim_seconds=2)``.

    Example:
        >>> with Cloud(tmp_path) as cloud:
        ...     subprocess.run(["pulumi", "up", "--yes"], env=cloud.env, timeout=300)
    """

    name: str
    daemon: str
    foreign: tuple[str, ...]  # prefixes of environment variables that belong to the caller's own clouds
    more: str  # what else to try
    _credential: str  # a key that only this cloud's credentials.json has

    def __init__(self, state: str | Path = ".localcloud", port: int | None = None, **options: Any) -> None:
        self.state = Path(state).resolve()
        self._options = options
        self._port = port
        self._process: Any = None
        self.left_out: dict[str, list[str]] = {}
        """Paths of properties by their resource's name; those that localcloud does not have are left out of it."""

    def __enter__(self) -> Self:
        return self.start(bound=True)

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The daemon's URL, `http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._daemon()['port']}"

    @property
    def pid(self) -> int | None:
        """The daemon's process id, or None if it is not running."""
        with contextlib.suppress(CloudError):
            pid = self._daemon()["pid"]
            return pid if alive(pid) else None
        return None

    def _daemon(self) -> dict[str, Any]:
        try:
            found = json.loads((self.state / "daemon.json").read_text())
        except FileNotFoundError:
            raise CloudError(
                f"No localcloud runs in {self.state}: python -m localcloud up --state {self.state}"
            ) from None
        if found.get("cloud", self.name) != self.name:
            raise CloudError(
                f"The localcloud in {self.state} belongs to {found['cloud']}, not to {self.name}. End it with "
                f"`python -m localcloud down --state {self.state}`, or start another one with --state FOLDER."
            )
        return found

    def start(self, *, bound: bool = False) -> Self:
        """Prepare the engine, start the daemon and wait until it is healthy. A running daemon is kept.

        Args:
            bound: The daemon ends when this process does, however that ends.

        Raises:
            CloudError: The daemon ended or was not healthy in time, or the other cloud runs in the folder.
            engine.EngineError: There is no engine.
        """
        self.state.mkdir(parents=True, exist_ok=True)
        self._evict()
        engine.programs(self.state / "bin")
        self._prepare()
        if self.pid:
            return self
        # An account starts empty, so the engine's record of an earlier one goes.
        shutil.rmtree(self.state / "pulumi", ignore_errors=True)
        with _free_port() as port:
            self._serve(self._port or port, bound)
        (self.state / "pulumi").mkdir(exist_ok=True)
        home = self.state / "pulumi-home"
        home.mkdir(exist_ok=True)
        # The engine logs each step to a folder of this name, which takes a tenth of a command's time, unless it cannot.
        (home / "logs").touch()
        return self

    def _serve(self, port: int, bound: bool) -> None:
        """Start the daemon, and wait until it is healthy."""
        command = [
            sys.executable,
            "-m",
            "localcloud.daemon",
            *([BOUND] if bound else []),
            self.daemon,
            "--state",
            str(self.state),
            "--port",
            str(port),
        ]
        for name, value in self._options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(self.foreign)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with (self.state / "daemon.log").open("ab") as log:
            self._process = process = spawn(
                command,
                stdin=subprocess.PIPE if bound else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.state,
                env=environment,
                start_new_session=True,
            )
        (self.state / "daemon.json").write_text(json.dumps({"pid": process.pid, "port": port, "cloud": self.name}))
        (self.state / "daemon.pid").write_text(f"{process.pid}\n")
        end = time.monotonic() + START_SECONDS
        while not self.healthy():
            if process.poll() is not None or time.monotonic() > end:
                self.stop()
                tail = "\n".join((self.state / "daemon.log").read_text().splitlines()[-15:])
                raise CloudError(f"localcloud did not start on port {port}:\n{tail}")
            time.sleep(0.05)

    def _evict(self) -> None:
        """Refuse the folder while the other cloud runs in it. If that cloud has ended, remove its login."""
        with contextlib.suppress(FileNotFoundError):
            daemon = json.loads((self.state / "daemon.json").read_text())
            if alive(daemon["pid"]):
                self._daemon()
            elif daemon.get("cloud", self.name) != self.name:
                (self.state / "daemon.json").unlink()
        with contextlib.suppress(FileNotFoundError):
            if self._credential not in json.loads((self.state / "credentials.json").read_text()):
                (self.state / "credentials.json").unlink()

    def _prepare(self) -> None:
        """Do what takes long the first time, before the wait for the daemon begins."""

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/_localcloud/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def stop(self) -> None:
        """End the daemon and every process that it started. Do nothing if it is not running."""
        try:
            pid = self._daemon()["pid"]
        except CloudError:
            return
        family = [pid, *descendants(pid)]
        for number, seconds in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
            # SIGTERM to the daemon, which ends the rest; SIGKILL to whatever remains
            for member in family if number == signal.SIGKILL else [pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, number)
            end = time.monotonic() + seconds
            while any(map(alive, family)) and time.monotonic() < end:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
                time.sleep(0.05)
        for name in ("daemon.json", "daemon.pid"):
            (self.state / name).unlink(missing_ok=True)

    def control(self, path: str, **body: Any) -> Any:
        """POST JSON to `/_localcloud/<path>` and return its JSON: `cloud.control("batch/reclaim", instance=None)`.

        Raises:
            CloudError: The daemon answered with an error.
        """
        request = urllib.request.Request(
            f"{self.url}/_localcloud/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            raise CloudError(f"{path}: {error.code} {error.read().decode(errors='replace')}") from None

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables that this localcloud needs, without the rest of the environment."""
        return {
            **self._settings(),
            "PULUMI_BACKEND_URL": f"file://{self.state}/pulumi",
            "PULUMI_CONFIG_PASSPHRASE": "localcloud",
            "PULUMI_HOME": str(self.state / "pulumi-home"),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            **({LEFT_OUT: json.dumps(self.left_out)} if self.left_out else {}),
            "PATH": self._path(str(Path(sys.executable).parent), *self._former()),
        }

    def _former(self) -> list[str]:
        return os.environ.get("PATH", "").split(os.pathsep)

    def _path(self, *folders: str) -> str:
        """A PATH that begins with the engine's programs."""
        return os.pathsep.join(dict.fromkeys([str(self.state / "bin"), *folders]))

    def _settings(self) -> dict[str, str]:
        """Return the settings that only this cloud has."""
        raise NotImplementedError

    def exports(self) -> str:
        """Return the settings as shell commands for `eval`. They unset variables that would take precedence.

        The caller's own `python` and `tidemill` stay: ours come last.
        """
        settings = self.settings | {"PATH": self._path(*self._former(), str(Path(sys.executable).parent))}
        lines = [f"export {key}={shlex.quote(value)}" for key, value in settings.items()]
        return "\n".join([f"unset {self._unset} PULUMI_ACCESS_TOKEN", *lines])

    _unset: str

    @property
    def env(self) -> dict[str, str]:
        """The whole environment of a subprocess, without the caller's own settings of this cloud and of Pulumi."""
        foreign = (*self.foreign, *PULUMI)
        rest = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return {**rest, **self.settings}


class Cloud(Localcloud):
    """An AWS on this machine."""

    name = "aws"
    daemon = "localcloud.aws.serve"
    foreign = ("AWS_",)
    more = ", aws s3 ls, …"
    _credential = "access_key_id"
    _unset = "AWS_PROFILE AWS_DEFAULT_PROFILE AWS_SESSION_TOKEN"

    def _settings(self) -> dict[str, str]:
        url = self.url
        key = json.loads((self.state / "credentials.json").read_text())
        return {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": key["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": key["secret_access_key"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": str(self.state / "aws-config"),
            "AWS_SHARED_CREDENTIALS_FILE": str(self.state / "aws-credentials"),
        }


class GcpCloud(Localcloud):
    """A GCP on this machine: one project. The settings log in as its owner."""

    name = "gcp"
    daemon = "localcloud.gcp.serve"
    foreign = GOOGLE
    more = ", python -m tidemill …"
    _credential = "project_id"
    _unset = "PUBSUB_EMULATOR_HOST GOOGLE_OAUTH_ACCESS_TOKEN GOOGLE_CREDENTIALS GCE_METADATA_HOST"

    def _prepare(self) -> None:
        pubsub.binary()

    @property
    def project(self) -> str:
        return json.loads((self.state / "credentials.json").read_text())["project_id"]

    def _settings(self) -> dict[str, str]:
        overrides = {f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": f"{self.url}/{api}/" for api in GOOGLE_APIS}
        return {
            **overrides,
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.state / "credentials.json"),
            "GOOGLE_CLOUD_PROJECT": self.project,
            "GOOGLE_PROJECT": self.project,
            "GOOGLE_REGION": GCP_REGION,
            "GOOGLE_BASE_URL": f"{self.url}/storage",
            "CLOUDSDK_CONFIG": str(self.state / "gcloud"),
            "NO_GCE_CHECK": "true",
        }


CLOUDS: dict[str, type[Cloud | GcpCloud]] = {kind.name: kind for kind in (Cloud, GcpCloud)}


def running(state: Path) -> str:
    """Return the name of the cloud that runs in a state folder, or the first one's if none does."""
    try:
        return json.loads((state / "daemon.json").read_text()).get("cloud", Cloud.name)
    except FileNotFoundError:
        return Cloud.name


@contextlib.contextmanager
def _free_port() -> Iterator[int]:
    """A free port. Until the block ends, no other process gets it by chance, but the daemon may bind it."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        if sys.platform != "linux":  # a port can be bound only once there
            reserved.close()
        yield port
