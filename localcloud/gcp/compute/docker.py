"""What `docker` does on an emulated machine: pull, create, cp, run, stop and rm. All other commands are refused."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from localcloud.machines.images import Image, PullError

Json = dict[str, Any]
VALUED = {"name", "network", "log-driver", "log-opt", "env", "env-file", "volume", "shm-size", "ulimit", "device",
          "mount", "entrypoint", "workdir", "stop-timeout", "label", "time", "platform"}  # fmt: skip
BARE = {"rm", "init", "quiet", "force", "read-only"}
SHORT = {"-e": "env", "-v": "volume", "-w": "workdir", "-t": "time", "-q": "quiet", "-f": "force"}
TAKES = {
    "pull": {"quiet", "platform"}, "create": {"name", "platform"}, "cp": {"quiet"}, "rm": {"force"}, "stop": {"time"},
    "run": (VALUED | BARE) - {"time", "quiet", "force"},
}  # fmt: skip
DRIVERS = {"json-file", "local", "journald", "none"}
STOP_SECONDS = 10


class DockerError(Exception):
    """An error message of docker; the second argument is its exit code."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


class ContainerHost(Protocol):
    """The machine that runs the containers."""

    def path(self, path: str) -> Path:
        """Where a path of the machine is on this one."""
        ...

    def image(self, reference: str) -> Image | None:
        """Pull an image, None for the one that represents this machine's root. Raises PullError."""
        ...

    def share(self, address: str, path: str) -> Path:
        """The folder that represents a share of NFS."""
        ...

    def contain(
        self, image: Image | None, description: Json, env: dict[str, str], output: int
    ) -> tuple[subprocess.Popen[bytes], str]:
        """Start a program in a container. Returns the process and the reason if it could not start."""
        ...


@dataclass
class Container:
    """A container, by name."""

    image: Image | None
    process: subprocess.Popen[bytes] | None = None


@dataclass
class Options:
    """A parsed command line: flags by their long names, then the words."""

    values: dict[str, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)

    def one(self, name: str, default: str = "") -> str:
        return self.values.get(name, [default])[-1]


def read(verb: str, argv: list[str]) -> Options:
    """Parse a command line; the first word ends the flags.

    Raises:
        DockerError: A flag is unknown here.
    """
    options, rest = Options(), list(argv)
    while rest and rest[0].startswith("-"):
        flag, has_value, value = rest.pop(0).partition("=")
        name = SHORT.get(flag, flag.removeprefix("--"))
        if name not in TAKES[verb]:
            raise DockerError(f"localcloud's docker {verb} does not know the flag {flag}", 125)
        if name in VALUED and not has_value:
            value = rest.pop(0) if rest else ""
        options.values.setdefault(name, []).append(value)
    options.words = rest
    return options


class Docker:
    """The Docker daemon of one machine."""

    def __init__(self, machine: ContainerHost) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self.containers: dict[str, Container] = {}

    def call(
        self, argv: list[str], env: Mapping[str, str], output: int, signals: Callable[[Callable[[int], None]], None]
    ) -> int:
        """Run a command.

        Args:
            argv: The words after `docker`.
            env: Environment of the caller, for `--env NAME`.
            output: File descriptor for its output.
            signals: Registers a function that is called with each signal sent to the caller.

        Returns:
            The exit code.

        Raises:
            DockerError: The command is refused or failed.
        """
        verb = argv[0] if argv else ""
        if verb not in TAKES:
            raise DockerError(f"localcloud's docker does not know {verb!r}: {', '.join(sorted(TAKES))}", 125)
        options = read(verb, argv[1:])
        if verb == "run":
            try:
                return self._run(options, env, output, signals)
            except DockerError as error:
                raise DockerError(str(error), 125 if error.code == 1 else error.code) from None
        text = getattr(self, f"_{verb}")(options)
        if text:
            os.write(output, f"{text}\n".encode())
        return 0

    def _image(self, reference: str) -> Image | None:
        try:
            return self._machine.image(reference)
        except PullError as error:
            raise DockerError(f"Error response from daemon: {error}") from None

    def _pull(self, options: Options) -> str:
        self._image(options.words[0])
        return options.words[0]

    def _create(self, options: Options) -> str:
        identity = uuid.uuid4().hex
        self._named(options.one("name") or identity[:12], Container(self._image(options.words[0])))
        return identity

    def _named(self, name: str, container: Container) -> Container:
        with self._lock:
            if name in self.containers:
                raise DockerError(f'Conflict. The container name "/{name}" is already in use by another.')
            self.containers[name] = container
        return container

    def _find(self, name: str) -> Container:
        if name not in self.containers:
            raise DockerError(f"Error response from daemon: No such container: {name}")
        return self.containers[name]

    def _cp(self, options: Options) -> str:
        """Copy out of a container's image. Files are linked, not copied, since no program here writes to them."""
        source, target = options.words
        name, _, path = source.partition(":")
        image = self._find(name).image
        place = Path(f"{image.root if image else ''}/{path.strip('/').removesuffix('/.').removesuffix('.')}")
        if not place.exists():
            raise DockerError(f"Error response from daemon: Could not find the file {path} in container {name}")
        there = self._machine.path(target)
        if not path.endswith("/.") and there.is_dir():
            there /= place.name
        if place.is_dir():
            shutil.copytree(place, there, symlinks=True, dirs_exist_ok=True, copy_function=_link)
        else:
            _link(str(place), str(there))
        return ""

    def _rm(self, options: Options) -> str:
        for name in options.words:
            if name not in self.containers and "force" in options.values:
                continue
            container = self._find(name)
            if container.process and container.process.poll() is None:
                if "force" not in options.values:
                    raise DockerError(f"Error response from daemon: cannot remove container {name}: it is running")
                container.process.kill()
            self.containers.pop(name, None)
        return "\n".join(options.words)

    def _stop(self, options: Options) -> str:
        for name in options.words:
            process = self._find(name).process
            if process and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(float(options.one("time", str(STOP_SECONDS))))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        return "\n".join(options.words)

    def _run(
        self, options: Options, env: Mapping[str, str], output: int, signals: Callable[[Callable[[int], None]], None]
    ) -> int:
        if options.one("network") != "host" or options.one("log-driver", "json-file") not in DRIVERS:
            raise DockerError(f"localcloud's docker run knows --network host and the log drivers {DRIVERS}", 125)
        if not options.words:
            raise DockerError("docker run requires at least 1 argument.", 125)
        name = options.one("name") or uuid.uuid4().hex[:12]
        image = self._image(options.words[0])
        description = self._describe(options, image)
        container = self._named(name, Container(image))
        try:
            process, problem = self._machine.contain(image, description, self._environment(options, env), output)
            if problem:
                raise DockerError(problem, 127 if "No such file" in problem else 126)
            container.process = process
            signals(lambda number: process.send_signal(number) if process.poll() is None else None)
            code = process.wait()
            return code if code >= 0 else 128 - code
        finally:
            if "rm" in options.values or container.process is None:
                self.containers.pop(name, None)

    def _describe(self, options: Options, image: Image | None) -> Json:
        config = image.config if image else {}
        words = options.words[1:]
        if "entrypoint" in options.values:
            argv = [options.one("entrypoint"), *words]
        else:
            argv = [*(config.get("Entrypoint") or []), *(words or config.get("Cmd") or [])]
        if not argv:
            raise DockerError("no command specified", 125)
        limits = [(name, *(int(part) for part in given.split(":"))) for name, _, given in
                  (each.partition("=") for each in options.values.get("ulimit", []))]  # fmt: skip
        shared = {"kind": "tmpfs", "target": "/dev/shm", "options": f"size={options.one('shm-size', '64m')},mode=1777"}
        return {
            "argv": argv,
            "cwd": options.one("workdir") or config.get("WorkingDir") or "/",
            "readonly": "read-only" in options.values,
            "init": "init" in options.values,
            "limits": [[limit[0], limit[1], limit[-1]] for limit in limits],
            "mounts": [shared, *self._devices(options), *self._volumes(options)],
        }

    def _devices(self, options: Options) -> list[Json]:
        paths = [each.partition(":")[0] for each in options.values.get("device", [])]
        for path in paths:
            if not Path(path).exists():
                text = (
                    f'error gathering device information while adding custom device "{path}": no such file or directory'
                )
                raise DockerError(f"Error response from daemon: {text}", 125)
        return [{"kind": "bind", "source": path, "target": path, "readonly": False} for path in paths]

    def _volumes(self, options: Options) -> list[Json]:
        mounts: list[Json] = []
        for each in options.values.get("volume", []):
            source, target, mode = (*each.split(":"), "")[:3]
            if not source.startswith("/") or mode not in ("", "ro", "rw", "ro,rslave", "rslave"):
                raise DockerError(f"localcloud's docker does not know the volume {each}", 125)
            folder = self._machine.path(source)
            if not folder.exists():  # Docker creates missing folders
                folder.mkdir(parents=True)
            mounts.append({"kind": "bind", "source": str(folder), "target": target, "readonly": mode.startswith("ro")})
        return mounts + [self._share(each) for each in options.values.get("mount", [])]

    def _share(self, given: str) -> Json:
        """A volume of NFS, which is always Filestore's here."""
        (words,) = csv.reader([given])
        found = _pairs(word for word in words if not word.startswith("volume-opt="))
        driver = _pairs(word.removeprefix("volume-opt=") for word in words if word.startswith("volume-opt="))
        if found.get("type") != "volume" or driver.get("type") != "nfs":
            raise DockerError(f"localcloud's docker does not know the mount {given}", 125)
        address = _pairs(driver["o"].split(","))["addr"]
        share = self._machine.share(address, driver["device"].removeprefix(":"))
        return {"kind": "bind", "source": str(share), "target": found["target"], "readonly": "readonly" in found}

    def _environment(self, options: Options, env: Mapping[str, str]) -> dict[str, str]:
        lines = list(options.values.get("env", []))
        for file in options.values.get("env-file", []):
            text = self._machine.path(file).read_text()
            lines += [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        found = {}
        for name, given, value in (line.partition("=") for line in lines):
            if given or name in env:
                found[name] = value if given else env[name]
        return found


def _link(source: str, target: str) -> None:
    Path(target).unlink(missing_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _pairs(words: Iterable[str]) -> dict[str, str]:
    """``a=b`` by its first part."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}
