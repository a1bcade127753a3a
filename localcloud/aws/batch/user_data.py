"""Programs of a machine's own: user data, which really runs, and the services that it starts."""

from __future__ import annotations

import email
import re
import shlex
import subprocess
from pathlib import Path

from localcloud.aws.batch.core import Core, log
from localcloud.machines import disk
from localcloud.machines.namespaces import Holder, Ports, start_container

SECONDS = 300
SCRIPTS = ("text/x-shellscript", "text/cloud-boothook")
DOUBLED = (
    "mount", "umount", "mount.nfs", "mount.nfs4", "mount.efs", "mount-s3", "mkfs", "mkfs.xfs", "mkfs.ext4", "swapon",
    "yum", "dnf", "rpm", "systemctl", "service", "shutdown", "poweroff", "reboot", "sysctl", "modprobe", "iptables",
    "docker", "useradd", "amazon-linux-extras", "cloud-init-per", "mdadm",
    "update-ca-trust",
)  # fmt: skip
DOUBLE = """#!/bin/sh
# Stands for a command that would change this machine, or that it does not have: notes the call, changes nothing.
echo "${0##*/} $*" >> "$LOCALCLOUD_DISK/var/log/localcloud-commands.log"
"""
TRUST = """
mkdir -p "$LOCALCLOUD_DISK/etc/pki/tls/certs"
cat "$LOCALCLOUD_DISK"/etc/pki/ca-trust/source/anchors/* > "$LOCALCLOUD_DISK/etc/pki/tls/certs/ca-bundle.crt"
"""
"""What `update-ca-trust` does, without the public authorities: nothing here asks a public server."""


class UserData:
    """The user data of one machine, and what it left running.

    Args:
        name: The machine's, for the log.
        root: The folder that is its disk.
        holder: Its namespaces, or what stands for them.
    """

    def __init__(self, core: Core, name: str, root: Path, holder: Holder | Ports) -> None:
        self._core, self._name, self._root, self._holder = core, name, root, holder
        self._ports = holder if isinstance(holder, Ports) else None
        self._doubles = core.settings.state_dir / "doubles"
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, data: bytes) -> None:
        """Run the shell scripts of MIME user data. A failure is logged, and the agent still joins."""
        self._prepare()
        scripts = [part for part in email.message_from_bytes(data).walk() if part.get_content_type() in SCRIPTS]
        if data.startswith(b"#!"):
            scripts = [email.message_from_bytes(b"Content-Type: text/x-shellscript\n\n" + data)]
        for number, part in enumerate(scripts):
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            self._run_script(number, content.decode())

    def _prepare(self) -> None:
        disk.prepare(self._root, ("etc/ecs", "var/log", "var/lib", "mnt", "root", "run", "tmp", "home", "opt", "srv"))
        (self._root / "etc/fstab").touch()
        with self._core.lock:
            self._doubles.mkdir(parents=True, exist_ok=True)
            for name in DOUBLED:
                if not (self._doubles / name).exists():
                    (self._doubles / name).write_text(DOUBLE + (TRUST if name == "update-ca-trust" else ""))
                    (self._doubles / name).chmod(0o755)

    def _run_script(self, number: int, content: str) -> None:
        script = self._root / f"var/lib/cloud/part-{number:03}"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(self._ports.told(content) if self._ports else content)
        script.chmod(0o700)
        process, problem = self._start([f"/var/lib/cloud/{script.name}"], "cloud-init-output.log")
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code or problem:
            tail = (self._root / "var/log/cloud-init-output.log").read_text(errors="replace")[-2000:]
            log.warning("user data of %s ended with %s %s:\n%s", self._name, code, problem, tail)

    def _start(self, argv: list[str], log_file: str) -> tuple[subprocess.Popen[bytes], str]:
        """Start a program on the machine itself, as its root; the text says why it did not start."""
        ports = self._ports
        programs = self._doubles if ports else disk.PROGRAMS
        description = {
            "disk": str(self._root),
            "argv": [ports.told(word) for word in argv] if ports else argv,
            "env": {
                "PATH": f"{programs}:{disk.PATH}",
                "HOME": ports.told("/root") if ports else "/root",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._core.settings.port}",
                "LOCALCLOUD_DISK": str(ports.root) if ports else "",
            },
            "mounts": disk.mounts(self._doubles),
        }
        with (self._root / "var/log" / log_file).open("ab") as output:
            started = start_container(self._core.settings.state_dir, self._holder.pid, description, output.fileno())
        self._running.append(started[0])
        return started

    def start_units(self) -> None:
        """Start the services that user data has started, each one once, with what comes before its main program."""
        for name in re.findall(r"^systemctl enable --now (\S+)$", "\n".join(self.commands()), re.MULTILINE):
            unit = (self._root / "etc/systemd/system" / name).read_text()
            for stage, command in re.findall(r"^(ExecStart(?:Pre)?)=(.+)$", unit, re.MULTILINE):
                process, problem = self._start(shlex.split(command), f"{name}.log")
                if problem or (stage == "ExecStartPre" and process.wait(SECONDS)):
                    log.warning("%s of %s did not start: %s", name, self._name, problem or stage)
                    break

    def commands(self) -> list[str]:
        """The calls of doubles, with the machine's paths."""
        noted = self._root / "var/log/localcloud-commands.log"
        text = noted.read_text() if noted.is_file() else ""
        return (self._ports.own(text) if self._ports else text).splitlines()

    @property
    def works(self) -> bool:
        """Whether a program is still running."""
        return any(process.poll() is None for process in self._running)

    def kill(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
