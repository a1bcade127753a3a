"""A machine's namespaces, and programs that run in them as in a container."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]

HERE = Path(__file__).parent
HOLDER_SECONDS = 120
PYTHON = [sys.executable, "-I", "-S"]
SYSTEM = ["usr", "bin", "sbin", "lib", "lib32", "lib64"]
"""Folders of this machine that an emulated machine has too, read-only."""
IMAGE: list[Json] = [
    {"kind": "image", "source": "/", "skip": ["proc", "sys", "dev", "tmp"]},
    {"kind": "bind", "source": "/sys", "target": "/sys", "readonly": True},
    {"kind": "devices"},
    {"kind": "tmpfs", "target": "/tmp", "options": "mode=1777"},
]
"""A container's root if its image is this machine's own root: that root, read-only, with some parts of its own."""


PRIVATE = (".aws", ".ssh", ".docker", ".pulumi", ".config/gcloud", ".gnupg", ".kube")


def image_root(root: Path | None, state: Path, shown: Iterable[Path] = ()) -> tuple[list[Json], list[Json]]:
    """Return the mounts of a container's root.

    Args:
        root: Root of an unpacked image, or None for this machine's own root.
        state: localcloud's folder, which is hidden from every container.
        shown: Folders that belong to this machine's root even if they are under /tmp.

    Returns:
        The mounts of the root, and those that come after the container's own in-memory file systems.
    """
    if root:
        return [IMAGE[0] | {"source": str(root)}, *IMAGE[1:]], []
    folders = dict.fromkeys([*shown, Path(sys.prefix), Path(sys.base_prefix), HERE.parents[1]])
    hidden = [*(str(Path.home() / each) for each in PRIVATE), str(state)]
    return IMAGE, [
        *({"kind": "bind", "source": str(path), "target": str(path), "readonly": True}
          for path in folders if path.is_relative_to("/tmp")),
        *({"kind": "mask", "target": path} for path in hidden),
    ]  # fmt: skip


class Holder:
    """The process that keeps a machine's namespaces alive, and the machine's listening sockets.

    Args:
        addresses: Addresses to listen on inside the machine's network; the loopback device has them all.

    Raises:
        OSError: The kernel refuses.
    """

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [*PYTHON, str(HERE / "holder.py"), *(f"{host}:{port}" for host, port in addresses)]
            self.process = subprocess.Popen(command, stdin=theirs.fileno(), stderr=subprocess.PIPE, env={}, cwd="/")
        self._channel = ours
        self.sockets: list[socket.socket] = []
        ours.settimeout(HOLDER_SECONDS)
        _, descriptors, _, _ = socket.recv_fds(ours, 16, len(addresses))
        if len(descriptors) != len(addresses):
            problem = (self.process.stderr.read() if self.process.stderr else b"").decode().strip().splitlines()
            self.close()
            raise OSError(problem[-1] if problem else "the namespaces could not be made")
        self.sockets = [socket.socket(fileno=each) for each in descriptors]

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        self._channel.close()
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


def start_container(
    folder: Path, holder: int | None, description: Json, output: int
) -> tuple[subprocess.Popen[bytes], str]:
    """Start a program with container.py.

    Args:
        folder: Every new root is built on the folder `root` in it, which stays empty.
        holder: Process whose network and user namespaces the program gets.
        description: The input of container.py, without ``holder``, ``root`` and ``status``.
        output: Descriptor for its stdout and stderr.

    Returns:
        The process, and why the program could not start (empty if it did).
    """
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    ours, theirs = os.pipe()
    process = subprocess.Popen(
        [*PYTHON, str(HERE / "container.py")],
        stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[theirs], env={}, cwd="/",
    )  # fmt: skip
    os.close(theirs)
    with open(ours, "rb") as status:
        assert process.stdin
        process.stdin.write(json.dumps(description | {"holder": holder, "root": str(root), "status": theirs}).encode())
        process.stdin.close()
        return process, status.read().decode()


@cache
def refusal(folder: Path) -> str:
    """Say why this machine refuses namespaces; empty if it does not. Each folder is tried once."""
    try:
        holder = Holder([("127.0.0.1", 1)])
        try:
            trial: Json = {"argv": ["true"], "env": {"PATH": "/usr/bin:/bin"}, "mounts": [*IMAGE, {"kind": "proc"}]}
            process, problem = start_container(folder, holder.process.pid, trial, subprocess.DEVNULL)
            if process.wait(10) or problem:
                return problem or "the trial program failed"
        finally:
            holder.close()
    except (OSError, AttributeError, subprocess.TimeoutExpired) as error:
        return str(error) or type(error).__name__
    return ""
