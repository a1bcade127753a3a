"""A machine's namespaces, and programs that run in them as in a container; as plain processes, where there are none.

Run as a script, it says how machines and containers run here, before anything is built. It imports only the standard
library.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from localcloud.machines import plain

Json = dict[str, Any]

HERE = Path(__file__).parent
HOLDER_SECONDS = 120
PYTHON = [sys.executable, "-I", "-S"]
DISK = ("etc", "var", "run", "mnt", "opt", "srv", "home", "root")
"""Folders that an emulated machine has of its own."""
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

    @property
    def pid(self) -> int | None:
        """The process that programs of the machine share namespaces with."""
        return self.process.pid

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        self._channel.close()
        self.process.kill()
        self.process.wait()
        if self.process.stderr:
            self.process.stderr.close()


class Ports:
    """Stands for a Holder where the kernel refuses namespaces: each address of the machine is a port of this one.

    Args:
        folder: The machine's disk.
        addresses: As a Holder's.

    Attributes:
        root: A short path to the disk, since that of a socket has at most 107 characters.
        addresses: What stands for each address.
    """

    pid = None

    def __init__(self, folder: Path, addresses: list[tuple[str, int]]) -> None:
        short = min(filter(_writable, ("/tmp", "/var/tmp", tempfile.gettempdir())), key=len)
        self.root = Path(short, f"localcloud-{os.urandom(6).hex()}")
        self.root.symlink_to(folder)
        self.sockets = [socket.create_server(("127.0.0.1", 0), backlog=128) for _ in addresses]
        found = (each.getsockname()[1] for each in self.sockets)
        self.addresses = {host: f"127.0.0.1:{port}" for (host, _), port in zip(addresses, found, strict=True)}
        own, folders = re.escape(str(self.root)), "|".join(DISK)
        self._paths = re.compile(rf"(?<![\w.~}}/-])(?!{own}/)/(?=(?:{folders})(?![\w.-]))")

    def told(self, text: str) -> str:
        """Return what a program of the machine is told, with the paths and addresses that stand for the machine's."""
        for address, here in self.addresses.items():
            text = text.replace(address, here)
        return self._paths.sub(f"{self.root}/", text)

    def own(self, text: str) -> str:
        """Return what a program of the machine said, with the machine's paths."""
        return text.replace(str(self.root), "")

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        self.root.unlink(missing_ok=True)


def _writable(folder: str) -> bool:
    return os.access(folder, os.W_OK)


class Plain(subprocess.Popen[bytes]):
    """A program that plain.py started."""

    def kill(self) -> None:
        self.send_signal(signal.SIGUSR1)


def start_container(
    folder: Path, holder: int | None, description: Json, output: int
) -> tuple[subprocess.Popen[bytes], str]:
    """Start a program with container.py, or without a holder with plain.py.

    Args:
        folder: Every new root is built on the folder `root` in it, which stays empty.
        holder: Process whose network and user namespaces the program gets, if there are namespaces.
        description: The input of container.py, without ``holder``, ``root`` and ``status``.
        output: Descriptor for its stdout and stderr.

    Returns:
        The process, and why the program could not start (empty if it did).
    """
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    ours, theirs = os.pipe()
    script, kind = ("container.py", subprocess.Popen[bytes]) if holder else ("plain.py", Plain)
    process = kind(
        [*PYTHON, str(HERE / script)],
        stdin=subprocess.PIPE, stdout=output, stderr=output, pass_fds=[theirs], env={}, cwd="/",
    )  # fmt: skip
    os.close(theirs)
    with open(ours, "rb") as status:
        assert process.stdin
        process.stdin.write(json.dumps(description | {"holder": holder, "root": str(root), "status": theirs}).encode())
        process.stdin.close()
        return process, status.read().decode()


SYSCTL = Path("/proc/sys")
SETTINGS = {
    "kernel/apparmor_restrict_unprivileged_userns": (1, 0),
    "kernel/unprivileged_userns_clone": (0, 1),
    "user/max_user_namespaces": (0, 10_000),
}
"""Files of /proc/sys that may refuse namespaces: the value that does so, and one that does not."""
OFF = "switched off"
"""The refusal of a localcloud that was started with --namespaces false."""
LEFT_OUT = """\
Machines and containers run as plain processes here: the kernel refuses namespaces ({reason}).
Left out: images with a root of their own, mounts at their paths, walls between containers, what hides this machine.
{guard}
{fix}"""
GUARDED = """\
Landlock keeps jobs and user data from writing outside of their own folders, /tmp, /var/tmp and /dev/shm. They may read
and reach whatever {user} may: run only what you trust so far."""
UNGUARDED = """\
So jobs and user data may do whatever you may: run only what you trust so far. From Linux 6.2 on, Landlock would keep
them from changing your files."""
NONE_RUN = """\
No machine or container runs here: the kernel refuses namespaces ({reason}) and has no Landlock, which comes with Linux
6.2. Nothing would keep their programs from changing this machine, since you are root. Be another user.
{fix}"""


def fix(reason: str) -> str:
    """Return the sentence that says which setting refuses namespaces, as far as a process can tell."""
    if reason == OFF:
        return "To allow them: start localcloud without `--namespaces false`."
    changes = [
        f"sudo sysctl {name.replace('/', '.')}={good}"
        for name, (bad, good) in SETTINGS.items()
        if (file := SYSCTL / name).is_file() and file.read_text().strip() == str(bad)
    ]
    if changes:
        return f"To allow them: {' && '.join(changes)}"
    if re.search(r"^Seccomp:\s*2$", Path("/proc/self/status").read_text(), re.MULTILINE):
        options = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
        return f"To allow them: start this container with `docker run {options}`."
    return "To allow them: leave the chroot or sandbox that this shell runs in."


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
        return str(error).rpartition("] ")[2] or type(error).__name__
    return ""


def needed(image: str, reason: str) -> str:
    """Say that an image cannot run here."""
    return (
        f"{image} has a root of its own, which needs namespaces, and the kernel refuses them ({reason}). {fix(reason)}"
    )


def notice(reason: str) -> str:
    """Say what is left out without namespaces, and which setting brings it back."""
    if not runs():
        return NONE_RUN.format(reason=reason, fix=fix(reason))
    user = "root" if os.geteuid() == 0 else "you"
    guard = GUARDED.format(user=user) if plain.landlock() >= plain.VERSION else UNGUARDED
    return LEFT_OUT.format(reason=reason, guard=guard, fix=fix(reason))


def runs() -> bool:
    """Whether machines and containers run where the kernel refuses namespaces: root's need Landlock instead."""
    return os.geteuid() != 0 or plain.landlock() >= plain.VERSION


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        if problem := refusal(Path(scratch)):
            print(notice(problem))
            sys.exit(0 if runs() else 2)
