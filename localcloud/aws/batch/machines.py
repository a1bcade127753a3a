"""Emulated EC2 machines: their own network, metadata, user data that really runs, and Spot reclaims.

Where the kernel refuses namespaces, its programs are plain processes, which are told where its disk and metadata are.
"""

from __future__ import annotations

import base64
import email
import re
import secrets
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localcloud.aws.accounts import service_client
from localcloud.aws.batch.catalog import Environment, template_version
from localcloud.aws.batch.core import Core, Json, WsgiApp, log
from localcloud.aws.batch.instance_types import InstanceType
from localcloud.aws.batch.metadata import InstanceMetadata, TaskCredentials
from localcloud.aws.wsgi import ServedApp, serve_socket
from localcloud.machines import namespaces
from localcloud.machines.namespaces import SYSTEM, Holder, Ports, start_container

if TYPE_CHECKING:
    from localcloud.aws.batch.jobs import Child

METADATA, CREDENTIALS = ("169.254.169.254", 80), ("169.254.170.2", 80)
Address = tuple[str, int]
DESCRIPTION = "/var/lib/tidemill/worker/machine"
"""The file in which our host service says what the machine is."""
USER_DATA_SECONDS = 300
SCRIPTS = ("text/x-shellscript", "text/cloud-boothook")
ETC = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "alternatives")
DOUBLED = (
    "mount", "umount", "mount.nfs", "mount.nfs4", "mount.efs", "mount-s3", "mkfs", "mkfs.xfs", "mkfs.ext4", "swapon",
    "yum", "dnf", "rpm", "systemctl", "service", "shutdown", "poweroff", "reboot", "sysctl", "modprobe", "iptables",
    "docker", "useradd", "amazon-linux-extras", "cloud-init-per", "mdadm",
)  # fmt: skip
DOUBLE = """#!/bin/sh
# Stands for a command that would change this machine, or that it does not have: notes the call, changes nothing.
echo "${0##*/} $*" >> "$LOCALCLOUD_DISK/var/log/localcloud-commands.log"
"""


class Machine:
    """One emulated EC2 instance with an ECS agent.

    Attributes:
        free: The resources left for children.
        state: ``booting``, ``running`` (the agent has joined) or ``failed`` (localcloud could not create it).
        doomed: The machine has its Spot notice.
        retiring: Its environment is being replaced or deleted; it receives no more children.
        gone: The machine was taken away.
        ends_at: When Spot takes the machine, in seconds since the epoch.
        hinted_at: When EC2 recommended to leave it, likewise.
        config: The settings that its user data wrote to ecs.config.
    """

    def __init__(self, core: Core, environment: Environment, kind: InstanceType, subnet: str) -> None:
        self._core = core
        self.id = f"i-{secrets.token_hex(9)[:17]}"
        self.environment = environment
        self.type = kind
        self.free = kind.room
        self.spot = environment.resources["type"] == "SPOT"
        self.state = "booting"
        self.children: set[Child] = set()
        self.started = self.idle_since = time.monotonic()
        self.doomed = self.retiring = self.gone = False
        self.ends_at: float | None = None
        self.hinted_at: float | None = None
        self.config: dict[str, str] = {}
        self.mounts: dict[str, str] = {}
        self.tokens_required = True
        self.root = core.settings.state_dir / "machines" / self.id
        self.credentials = TaskCredentials()
        self.zone, self.role_arn = environment.region + "a", ""
        self._subnet = subnet
        self._holder: Holder | None = None
        self._apart: Holder | None = None
        self._ports: Ports | None = None
        self._served: list[ServedApp] = []
        self._running: list[subprocess.Popen[bytes]] = []

    @property
    def holder(self) -> int | None:
        """Process whose namespaces containers get: the machine's, or others if its metadata is hidden from them.
        None where there are no namespaces."""
        holder = self._apart or self._holder
        return holder.process.pid if holder else None

    @property
    def arn(self) -> str:
        """ARN of the ECS container instance."""
        cluster = self.environment.detail["ecsClusterArn"].replace(":cluster/", ":container-instance/")
        return f"{cluster}/{self.id.removeprefix('i-')}"

    @property
    def accepts(self) -> bool:
        """Whether ECS may place a task. A Spot notice alone stops nothing; draining does, if it is configured:
        https://docs.aws.amazon.com/AmazonECS/latest/developerguide/container-instance-spot.html"""
        draining = self.config.get("ECS_ENABLE_SPOT_INSTANCE_DRAINING", "").lower() == "true"
        return self.state == "running" and not self.retiring and not self.gone and not (self.doomed and draining)

    def add(self, child: Child) -> None:
        self.children.add(child)
        self.free -= child.job.needs

    def remove(self, child: Child) -> None:
        self.children.discard(child)
        self.free += child.job.needs
        self.idle_since = time.monotonic()

    def give_notice(self) -> None:
        """Give Spot's notice; instance metadata shows it from now on."""
        self.doomed = True
        self.ends_at = time.time() + self._core.settings.reclaim_seconds

    def give_hint(self) -> None:
        """Recommend a rebalance; instance metadata shows it from now on. Nothing else changes."""
        self.hinted_at = time.time()

    # Booting

    def boot(self) -> None:
        """Start the machine: network, metadata, user data, agent. The caller does not hold the lock."""
        if not self._core.settings.joins:
            return
        try:
            region = self.environment.region
            subnets = service_client("ec2", region).describe_subnets(SubnetIds=[self._subnet])["Subnets"]
            self.zone = subnets[0]["AvailabilityZone"]
            profile = self.environment.resources["instanceRole"].split("/")[-1]
            found = service_client("iam", region).get_instance_profile(InstanceProfileName=profile)
            self.role_arn = found["InstanceProfile"]["Roles"][0]["Arn"]
            template = self._template()
            self.tokens_required = template.get("MetadataOptions", {}).get("HttpTokens", "required") == "required"
            self._connect()
            self._run_user_data(base64.b64decode(template.get("UserData", "")))
            self._start_units()
            self._await_description()
            if self._holder:
                self._part_containers()
            joined = "running" if self._registers() else "failed"
        except BaseException:
            self._core.after(0, lambda: self._join("failed"))
            raise
        finally:
            if self.gone:
                self.stop()
        self._core.after(self._core.settings.machine_boot_seconds, lambda: self._join(joined))

    def _registers(self) -> bool:
        """Whether the agent can join the cluster and request work with the machine's role."""
        authorize, region = self._core.host.authorize, self.environment.region
        cluster = self.environment.detail["ecsClusterArn"]
        asked = {"ecs:RegisterContainerInstance": cluster, "ecs:Poll": self.arn, "ecs:SubmitTaskStateChange": cluster}
        return all(authorize(self.role_arn, action, arn, region) for action, arn in asked.items())

    def _join(self, state: str) -> None:
        self.state = state
        self.idle_since = time.monotonic()

    def _template(self) -> Json:
        template = self.environment.resources.get("launchTemplate")
        if not template:
            return {}
        ec2 = service_client("ec2", self.environment.region)
        versions = ec2.describe_launch_template_versions(**template_version(template))
        return versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]

    def _connect(self) -> None:
        self.root.mkdir(parents=True)
        metadata: dict[Address, WsgiApp] = {METADATA: InstanceMetadata(self)}
        if refused(self._core):
            self._ports = Ports(self.root, list(metadata))
            self._serve(self._ports.sockets, metadata)
        else:
            self._holder = self._hold(metadata)

    def _hold(self, more: dict[Address, WsgiApp]) -> Holder:
        """Create namespaces with what every program on the machine reaches, and with ``more``."""
        apps = more | {CREDENTIALS: self.credentials, ("127.0.0.1", self._core.settings.port): self._cloud}
        holder = Holder(list(apps))
        self._serve(holder.sockets, apps)
        return holder

    def _serve(self, sockets: list[socket.socket], apps: dict[Address, WsgiApp]) -> None:
        for each, app in zip(sockets, apps.values(), strict=True):
            self._served.append(serve_socket(each, app))
            each.close()

    def _part_containers(self) -> None:
        """Hide the metadata from containers if a setting of their slice does so."""
        settings = self.root.glob("etc/systemd/system/ecstasks.slice.d/*.conf")
        if any(re.search(rf"^IPAddressDeny=.*{METADATA[0]}", each.read_text(), re.MULTILINE) for each in settings):
            self._apart = self._hold({})

    def _cloud(self, environ: Json, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The AWS endpoint as programs on the machine see it, without localcloud's own controls."""
        if environ["PATH_INFO"].startswith("/_localcloud"):
            start_response("404 Not Found", [("Content-Length", "0")])
            return []
        return self._core.host.app(environ, start_response)

    # User data

    def _run_user_data(self, data: bytes) -> None:
        """Run the shell scripts of MIME user data. A failure is logged, and the agent still joins."""
        scripts = [part for part in email.message_from_bytes(data).walk() if part.get_content_type() in SCRIPTS]
        if data.startswith(b"#!"):
            scripts = [email.message_from_bytes(b"Content-Type: text/x-shellscript\n\n" + data)]
        for number, part in enumerate(scripts):
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            self._run_script(number, content.decode())
        self._read_mounts()
        config = self.root / "etc/ecs/ecs.config"
        if config.is_file():
            lines = (line.partition("=") for line in config.read_text().splitlines())
            self.config |= {key.strip(): value.strip() for key, _, value in lines}

    def _run_script(self, number: int, content: str) -> None:
        self._prepare_disk()
        script = self.root / f"var/lib/cloud/part-{number:03}"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(self._ports.told(content) if self._ports else content)
        script.chmod(0o700)
        process, problem = self._start([f"/var/lib/cloud/{script.name}"], "cloud-init-output.log")
        try:
            code = process.wait(USER_DATA_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code or problem:
            tail = (self.root / "var/log/cloud-init-output.log").read_text(errors="replace")[-2000:]
            log.warning("user data of %s ended with %s %s:\n%s", self.id, code, problem, tail)

    def _start(self, argv: list[str], log_file: str) -> tuple[subprocess.Popen[bytes], str]:
        """Start a program on the machine itself, as its root; the text says why it did not start."""
        doubles, ports = str(self._core.settings.state_dir / "doubles"), self._ports
        programs = doubles if ports else "/run/localcloud"
        description: Json = {
            "disk": str(self.root),
            "argv": [ports.told(word) for word in argv] if ports else argv,
            "env": {
                "PATH": f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": ports.told("/root") if ports else "/root",
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._core.settings.port}",
                "LOCALCLOUD_DISK": str(ports.root) if ports else "",
            },
            "mounts": [
                {"kind": "image", "source": "/", "only": SYSTEM},
                {"kind": "bind", "source": doubles, "target": "/run/localcloud", "readonly": True},
                {"kind": "devices"},
                {"kind": "proc"},
            ],
        }
        holder = self._holder.process.pid if self._holder else None
        with (self.root / "var/log" / log_file).open("ab") as output:
            started = start_container(self._core.settings.state_dir, holder, description, output.fileno())
        self._running.append(started[0])
        return started

    def _start_units(self) -> None:
        """Start the services that user data has started, each one once, with what comes before its main program."""
        lines = self._noted()
        for name in re.findall(r"^systemctl enable --now (\S+)$", "\n".join(lines), re.MULTILINE):
            unit = (self.root / "etc/systemd/system" / name).read_text()
            for stage, command in re.findall(r"^(ExecStart(?:Pre)?)=(.+)$", unit, re.MULTILINE):
                process, problem = self._start(shlex.split(command), f"{name}.log")
                if problem or (stage == "ExecStartPre" and process.wait(USER_DATA_SECONDS)):
                    log.warning("%s of %s did not start: %s", name, self.id, problem or stage)
                    break

    def _noted(self) -> list[str]:
        """Return the calls of doubles, with the machine's paths."""
        noted = self.root / "var/log/localcloud-commands.log"
        text = noted.read_text() if noted.is_file() else ""
        return (self._ports.own(text) if self._ports else text).splitlines()

    def _await_description(self) -> None:
        """Wait for the host service to describe the machine, for which a real agent's start leaves it seconds."""
        end = time.monotonic() + USER_DATA_SECONDS
        while not self.path(DESCRIPTION).exists() and time.monotonic() < end and not self.gone:
            if all(process.poll() is not None for process in self._running):
                return
            time.sleep(0.02)

    def _prepare_disk(self) -> None:
        for folder in ("etc/ecs", "var/log", "var/lib", "mnt", "root", "run", "tmp", "home", "opt", "srv"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        (self.root / "etc/fstab").touch()
        for name in ETC:
            source, target = Path("/etc", name), self.root / "etc" / name
            if source.is_dir() and not target.exists():
                shutil.copytree(source, target, symlinks=True)
            elif source.is_file() and not target.exists():
                shutil.copyfile(source, target)
        doubles = self._core.settings.state_dir / "doubles"
        with self._core.lock:
            doubles.mkdir(parents=True, exist_ok=True)
            for name in DOUBLED:
                if not (doubles / name).exists():
                    (doubles / name).write_text(DOUBLE)
                    (doubles / name).chmod(0o755)

    def _read_mounts(self) -> None:
        """Read what user data mounted. Each EFS becomes a folder, and a bucket becomes a copy made now."""
        for line in self._noted():
            name, *words = line.split()
            if name.startswith("mount") and "-a" in words:
                entries = [each.split() for each in (self.root / "etc/fstab").read_text().splitlines()]
                self.mounts |= {each[1]: each[0] for each in entries if len(each) > 1 and each[0].startswith("fs-")}
            elif name.startswith("mount"):
                valued = {number + 1 for number, word in enumerate(words) if word in ("-o", "-t", "--prefix")}
                plain = [w for number, w in enumerate(words) if number not in valued and not w.startswith("-")]
                prefix = words[words.index("--prefix") + 1] if "--prefix" in words else ""
                if name == "mount-s3" and len(plain) > 1:
                    self._copy_bucket(plain[0], prefix, self.root / plain[1].lstrip("/"))
                elif len(plain) > 1:
                    self.mounts[plain[1]] = plain[0]

    def _copy_bucket(self, bucket: str, prefix: str, folder: Path) -> None:
        """Copy the objects that the instance role may read."""
        s3, region, allowed = (
            service_client("s3", self.environment.region),
            self.environment.region,
            self._core.host.authorize,
        )
        if not allowed(self.role_arn, "s3:ListBucket", f"arn:aws:s3:::{bucket}", region):
            log.warning("mount-s3 on %s: %s may not list the bucket %s", self.id, self.role_arn, bucket)
            return
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for key in [each["Key"] for each in page.get("Contents", [])]:
                name = key.removeprefix(prefix)
                if {"", ".", ".."} & set(name.split("/")):
                    continue  # Mountpoint shows no such name, and here it could lead out of the folder.
                if allowed(self.role_arn, "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", region):
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    s3.download_file(bucket, key, str(target))

    def path(self, host_path: str) -> Path:
        """Return where a path of the machine is on this one."""
        for target, source in self.mounts.items():
            system = re.match(r"(fs-[0-9a-f]+)[^:]*(?::/?(.*))?$", source)
            if system and (host_path + "/").startswith(target.rstrip("/") + "/"):
                below = host_path.removeprefix(target.rstrip("/")).lstrip("/")
                return file_system(self._core, system[1]) / (system[2] or "") / below
        return self.root / host_path.lstrip("/")

    def stop(self) -> None:
        """End its processes and sockets, and remove its disk."""
        self.gone = True
        for process in self._running:
            process.kill()
            process.wait()
        for holder in (self._holder, self._apart, self._ports):
            if holder:
                holder.close()
        for served in self._served:
            served.close()
        shutil.rmtree(self.root, ignore_errors=True)


def file_system(core: Core, identity: str) -> Path:
    """Return the folder that represents an EFS file system."""
    folder = core.settings.state_dir / "efs" / identity
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def refused(core: Core) -> str:
    """Say why machines and children get no namespaces here; empty if they do. This is tried once and logged."""
    problem = namespaces.refusal(core.settings.state_dir) if core.settings.namespaces else namespaces.OFF
    if problem:
        log.warning(namespaces.notice(problem))
    return problem
