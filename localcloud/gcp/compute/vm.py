"""An emulated VM as processes, with its own namespaces, disk, metadata, cloud-init, units and containers.

Programs of the host see this machine's /usr, read-only, below a root of their own. Stand-ins (`programs`) replace those
that would change this machine or that it lacks. Containers are made as for the other cloud.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path

from localcloud.gcp import filestore
from localcloud.gcp.compute import cloud_init
from localcloud.gcp.compute.docker import Docker, DockerError
from localcloud.gcp.compute.managed import Json
from localcloud.gcp.compute.metadata import CLOUD_PLATFORM, Metadata
from localcloud.gcp.compute.programs import STOOD_FOR, Programs
from localcloud.gcp.compute.unit_files import UnitError
from localcloud.gcp.compute.units import Units
from localcloud.gcp.compute.vm_host import METADATA, REGISTRIES, VmHost
from localcloud.gcp.wire import RestError, ServedApi
from localcloud.machines import disk
from localcloud.machines.images import Image, PullError
from localcloud.machines.namespaces import Holder, Ports, image_root, needed, start_container

Process = subprocess.Popen[bytes]
DOWNLOAD = "artifactregistry.repositories.downloadArtifacts"


class Vm:
    """One VM.

    Args:
        host: The parts shared with other VMs.
        name: Name of the instance.
        facts: Its constant metadata (see ``Metadata``).
        user_data: Its cloud-config.
        account: Email of its service account, empty for none; `scopes` are those of its tokens.
        off: Called once, when the guest has powered itself off.

    Attributes:
        problem: The part of its template that could not be run, empty when all could.
        preempted: Whether the notice was given.
    """

    def __init__(self, host: VmHost, name: str, facts: Json, user_data: str, off: Callable[[], None]) -> None:
        self._host, self._facts, self._user_data, self._off = host, facts, user_data, off
        self.name, self.root = name, host.state / "disks" / name
        self.problem, self.preempted, self.gone = "", False, False
        self.metadata = Metadata(self._all_facts, self._token)
        self.docker = Docker(self)
        self.units = Units(self, self.root / "etc/systemd/system", host.clock)
        self.programs = Programs(self.docker, self.units, self.power_off)
        self._lock = threading.RLock()
        self._holder: Holder | Ports | None = None
        self._served: list[ServedApi] = []
        self._processes: set[Process] = set()
        self._ending = False
        journal = host.state / "journals" / f"{name}.log"
        journal.parent.mkdir(parents=True, exist_ok=True)
        self._journal = journal.open("ab", buffering=0)

    @property
    def account(self) -> str:
        return self._facts["instance"]["service-accounts"].get("default", {}).get("email", "")

    # Its life

    def boot(self) -> None:
        """Make the machine and run its cloud-init."""
        try:
            self._prepare_disk()
            with self._lock:
                if self.gone:
                    return
                self._connect()
                self.programs.listen(self.root / "run")
            self._run_cloud_init()
        except Exception as error:
            if not self.gone:
                self.problem = f"{type(error).__name__}: {error}"
                self.note(self.problem)

    def _connect(self) -> None:
        """Create its namespaces, with what its programs reach. Without namespaces they reach localcloud itself."""
        handles = {METADATA: self.metadata.handle, ("127.0.0.1", self._host.port): self._host.serve}
        if self._host.refused:
            handles.popitem()
            self._holder = Ports(self.root, list(handles))
        else:
            self._holder = self._host.pool.submit(Holder, list(handles)).result()
        for listening, handle in zip(self._holder.sockets, handles.values(), strict=True):
            self._served.append(ServedApi(listening, handle))
            listening.close()

    @property
    def _ports(self) -> Ports | None:
        return self._holder if isinstance(self._holder, Ports) else None

    def notice(self) -> None:
        """Give Spot's notice: the metadata shows it from now on."""
        self.preempted = True
        self.metadata.change()

    def shut_down(self, seconds: float) -> None:
        """Soft off: stop the units, for at most this many seconds of the wall clock, then call `off`."""
        with self._lock:
            if self._ending:
                return
            self._ending = True
        threading.Thread(target=self._shut_down, args=(seconds,), daemon=True).start()

    def _shut_down(self, seconds: float) -> None:
        self.note("The system will power off now!")
        self.units.stop_all(seconds)
        if not self.gone:
            self._off()

    def power_off(self) -> None:
        """Power off, as asked by the guest."""
        self.shut_down(60)

    def kill(self) -> list[Process]:
        """End all of its processes at once; `close` removes the rest."""
        with self._lock:
            self.gone = self._ending = True
            processes = list(self._processes)
        for process in processes:
            process.kill()
        return processes

    def close(self) -> None:
        """End all remaining processes and remove the disk."""
        processes = self.kill()
        self.metadata.close()
        self.programs.close()
        for served in self._served:
            served.close()
        if self._holder:
            self._holder.close()
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        self._journal.close()
        shutil.rmtree(self.root, ignore_errors=True)

    # Its metadata

    def _all_facts(self) -> Json:
        instance = {**self._facts["instance"], "preempted": str(self.preempted).upper()}
        return {**self._facts, "instance": {**instance, "maintenance-event": "NONE"}}

    def _token(self) -> Json:
        scopes = self._facts["instance"]["service-accounts"]["default"]["scopes"].split()
        if CLOUD_PLATFORM not in scopes:
            raise RestError(403, f"localcloud gives tokens of the scope {CLOUD_PLATFORM} only")
        return self._host.token(f"serviceAccount:{self.account}")

    # Cloud-init

    def _prepare_disk(self) -> None:
        folders = (
            "etc/systemd/system",
            "etc/ssl/certs",
            "var/log",
            "var/lib",
            "mnt/disks",
            "root",
            "run",
            "tmp",
            "home",
        )
        disk.prepare(self.root, folders)
        (self.root / "etc/ssl/certs/ca-certificates.crt").touch()  # nothing here asks a public server
        (self.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{METADATA[0]} metadata.google.internal metadata\n")

    def _run_cloud_init(self) -> None:
        config = cloud_init.parse(self._user_data) if self._user_data else cloud_init.CloudConfig()
        self._commands(config.before)
        for each in config.files:
            target = self.root / each.path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            # Localcloud itself reads units.
            unit, content = target.is_relative_to(self.units.folder), each.content
            target.write_bytes(self._told(content.decode()).encode() if self._ports and not unit else content)
            target.chmod(each.mode)
        self._commands(config.commands)

    def _commands(self, commands: list[str | list[str]]) -> None:
        for command in commands:
            argv = ["sh", "-c", command] if isinstance(command, str) else command
            code = self.run(argv, {"HOME": "/root"}).wait()
            if code:
                self.note(f"cloud-init: {argv} ended with {code}")

    # Programs of the host

    def _told(self, text: str) -> str:
        return self._ports.told(text) if self._ports else text

    def path(self, path: str) -> Path:
        """Where a path that a program of the host names is on this machine."""
        return self.root / (self._ports.own(path) if self._ports else path).lstrip("/")

    def note(self, text: str) -> None:
        with contextlib.suppress(ValueError):
            self._journal.write(f"{text}\n".encode())

    def run(self, argv: list[str], environment: Mapping[str, str]) -> Process:
        """Start a program of the host; its output goes to the journal.

        Raises:
            UnitError: The program could not be started.
        """
        name = argv[0].rpartition("/")[2]
        ports, programs = self._ports, disk.PROGRAMS
        here = {"LOCALCLOUD_DISK": str(ports.root), "GCE_METADATA_HOST": ports.addresses[METADATA[0]]} if ports else {}
        if ports:
            programs = str(self._host.programs)
        argv = [f"{programs}/{name}" if name in STOOD_FOR else argv[0], *argv[1:]]
        known = {"PATH": f"{programs}:{disk.PATH}", "LANG": "C.UTF-8", **environment}
        description: Json = {
            "disk": str(self.root),
            "argv": [self._told(word) for word in argv],
            "env": {name: self._told(value) for name, value in known.items()} | here,
            "mounts": disk.mounts(self._host.programs, sys.base_prefix),
        }
        process, problem = self._start(description, self._journal.fileno())
        if problem:
            raise UnitError(f"{argv[0]}: {problem}")
        return process

    def share(self, address: str, path: str) -> Path:
        """The folder of a share of Filestore; every machine reaches it, whatever the share's export says."""
        return filestore.folder(self._host.state, address, path)

    def contain(self, image: Image | None, description: Json, env: dict[str, str], output: int) -> tuple[Process, str]:
        """Start a program in a container. Returns the process and the reason if it could not start."""
        if image and self._host.refused:
            raise DockerError(needed("The image", self._host.refused), 126)
        base, masks = image_root(image.root if image else None, self._host.state.parent)
        env = {
            "PATH": disk.PATH if image else f"{sys.prefix}/bin:{disk.PATH}", "HOME": "/", "HOSTNAME": self.name,
            **(image.variables if image else {}), **self._environment(), **env, **self._host.settings,
        }  # fmt: skip
        described = {**description, "env": env, "mounts": [*base, *masks, *description["mounts"], {"kind": "proc"}]}
        return self._start(described, output)

    def _environment(self) -> dict[str, str]:
        """Variables that point a container to localcloud; the template does not know them."""
        apis = ("pubsub", "logging", "monitoring", "compute", "storage", "secretmanager", "artifactregistry")
        return {
            "GCE_METADATA_HOST": self._told(METADATA[0]),
            "GOOGLE_BASE_URL": f"{self._host.url}/storage",
            # A worker counts on the wall clock; the reconciler that waits for its reports counts on the cloud's clock.
            "TIDEMILL_ALIVE_SECONDS": f"{max(300 / self._host.clock.factor, 0.05):g}",
            **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": f"{self._host.url}/{api}/" for api in apis},
        }

    def _start(self, description: Json, output: int) -> tuple[Process, str]:
        with self._lock:
            if self.gone or self._holder is None:
                raise UnitError(f"{self.name} is off")
            holder = self._holder.pid
            done: Future[tuple[Process, str]] = self._host.pool.submit(
                start_container, self._host.state, holder, description, output
            )
            process, problem = done.result()
            self._processes = {each for each in self._processes if each.poll() is None} | {process}
        return process, problem

    def image(self, reference: str) -> Image | None:
        """Pull an image with the machine's account; None for the one that represents this machine's root.

        Raises:
            PullError: The account may not pull, or the image does not exist.
        """
        host, _, path = reference.partition("/")
        if found := REGISTRIES.fullmatch(host):
            project, repository = [*path.split("/"), ""][:2]
            resource = f"artifactregistry/projects/{project}/locations/{found[1]}/repositories/{repository}"
            denied = f"Head https://{host}/v2/{path}: denied: "
            if host not in self.programs.registries:
                raise PullError(f"{denied}Unauthenticated request.")
            if not self._host.allows(f"serviceAccount:{self.account}", DOWNLOAD, resource):
                raise PullError(f'{denied}Permission "{DOWNLOAD}" denied on {resource}')
        return self._host.registry.find(reference)
