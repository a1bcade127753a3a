"""Stand-ins for programs of a VM: guest.py sends their calls over a socket, and they are answered here."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localcloud.gcp.compute.docker import Docker, DockerError
from localcloud.gcp.compute.unit_files import UnitError
from localcloud.gcp.compute.units import Units

Json = dict[str, Any]
STOOD_FOR = ("docker", "docker-credential-gcr", "systemctl", "poweroff", "shutdown", "halt", "mount", "umount", "curl")


class Programs:
    """The stand-in programs of one VM.

    Attributes:
        registries: Hosts to which `docker-credential-gcr` was asked to log in.
    """

    def __init__(self, docker: Docker, units: Units, power_off: Callable[[], None]) -> None:
        self._docker, self._units, self._power_off = docker, units, power_off
        self._calls: socket.socket | None = None
        self.registries: set[str] = set()

    def close(self) -> None:
        if self._calls:
            with contextlib.suppress(OSError):
                self._calls.shutdown(socket.SHUT_RDWR)
            self._calls.close()

    def listen(self, run: Path) -> None:
        """Accept calls of the VM with this /run. The path may be too long for a socket, so a descriptor names it."""
        self._calls = socket.socket(socket.AF_UNIX)
        folder = os.open(run, os.O_PATH | os.O_DIRECTORY)
        self._calls.bind(f"/proc/self/fd/{folder}/localcloud.sock")
        os.close(folder)
        self._calls.listen(32)
        threading.Thread(target=self._accept, args=(self._calls,), daemon=True).start()

    def _accept(self, calls: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                channel, _ = calls.accept()
                threading.Thread(target=self._take, args=(channel,), daemon=True).start()

    def _take(self, channel: socket.socket) -> None:
        """Answer one call of a stand-in program."""
        with channel, contextlib.suppress(OSError, ValueError):
            _, outputs, _, _ = socket.recv_fds(channel, 1, 2)
            lines = channel.makefile("rb")
            call = json.loads(lines.readline())
            try:
                code = self._do(call, outputs[0], lines)
            except (DockerError, UnitError, OSError) as error:
                code = getattr(error, "code", 1)
                with contextlib.suppress(OSError):
                    os.write(outputs[1], f"{error}\n".encode())
            finally:
                for each in outputs:
                    os.close(each)
            channel.sendall(json.dumps({"exit": code}).encode() + b"\n")

    def _do(self, call: Json, output: int, lines: Any) -> int:
        name, argv = call["name"], call["argv"]

        def signals(take: Callable[[int], None]) -> None:
            def read() -> None:
                with contextlib.suppress(OSError, ValueError):  # the call has already been answered
                    for line in lines:
                        take(json.loads(line)["signal"])

            threading.Thread(target=read, daemon=True).start()

        if name == "docker":
            return self._docker.call(argv, call["env"], output, signals)
        if name == "docker-credential-gcr":
            return self._credentials(argv)
        if name == "systemctl":
            code, text = self._units.systemctl(argv)
            if text:
                raise UnitError(text)
            return code
        if name in ("poweroff", "shutdown", "halt"):
            self._power_off()
            return 0
        return self._mount(name, argv)

    def _credentials(self, argv: list[str]) -> int:
        verb, *flags = argv or [""]
        if verb != "configure-docker" or not all(flag.startswith("--registries=") for flag in flags):
            raise DockerError(f"localcloud's docker-credential-gcr does not know {' '.join(argv)}")
        self.registries |= {host for flag in flags for host in flag.partition("=")[2].split(",")}
        return 0

    def _mount(self, name: str, argv: list[str]) -> int:
        """Bind mounts of a folder on itself or over the system's certificates, which nothing here asks, and changes of
        its options do nothing here; other mounts are refused."""
        plain = [word for word in argv if not word.startswith("-")]
        bound = "--bind" in argv and (len(set(plain)) == 1 or plain[-1].startswith("/etc/ssl/"))
        harmless = name == "umount" or bound or any("remount" in word for word in argv)
        if not harmless:
            raise DockerError(f"localcloud has no file system for {name} {' '.join(argv)}", 32)
        return 0


def standing_in(state: Path, addresses: dict[str, str]) -> Path:
    """Make the folder of stand-in programs, each a copy of guest.py."""
    folder = state / "programs"
    folder.mkdir(parents=True, exist_ok=True)
    text = f"#!{Path(sys.executable).resolve()} -IS\n" + (Path(__file__).parent / "guest.py").read_text()
    (folder / "addresses.json").write_text(json.dumps(addresses))
    for name in STOOD_FOR:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
