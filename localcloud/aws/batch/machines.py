"""Emulated EC2 machines: their own network, metadata, user data that really runs, and Spot reclaims.

Where the kernel refuses namespaces, its programs are plain processes, which are told where its disk and metadata are.
"""

from __future__ import annotations

import base64
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from localcloud.aws.accounts import service_client
from localcloud.aws.batch.core import Core, Json, WsgiApp, log
from localcloud.aws.batch.environments import Environment, template_version
from localcloud.aws.batch.instance import Instance
from localcloud.aws.batch.instance_types import InstanceType
from localcloud.aws.batch.metadata import InstanceMetadata, TaskCredentials
from localcloud.aws.batch.mounts import Mounts
from localcloud.aws.batch.user_data import UserData
from localcloud.aws.wsgi import ServedApp, serve_socket
from localcloud.machines import namespaces
from localcloud.machines.namespaces import Holder, Ports

METADATA, CREDENTIALS = ("169.254.169.254", 80), ("169.254.170.2", 80)
Address = tuple[str, int]
DESCRIPTION = "/var/lib/tidemill/worker/machine"
"""The file in which our host service says what the machine is."""
DESCRIPTION_SECONDS = 300


class Machine(Instance):
    """An instance as processes on this machine."""

    def __init__(self, core: Core, environment: Environment, kind: InstanceType, subnet: str) -> None:
        super().__init__(environment, kind)
        self._core, self._subnet = core, subnet
        self._root = core.settings.state_dir / "machines" / self.id
        self.credentials = TaskCredentials()
        mounts = self._mounts = Mounts(core, self, self._root)
        self.path = mounts.path
        self._holder: Holder | Ports | None = None
        self._apart: Holder | None = None
        self._user_data: UserData | None = None
        self._served: list[ServedApp] = []

    @property
    def holder(self) -> int | None:
        """Process whose namespaces containers get: the machine's, or others if its metadata is hidden from them.
        None where there are no namespaces."""
        holder = self._apart or self._holder
        return holder.pid if holder else None

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
            holder = self._connect()
            if self.gone:
                return
            self._run(UserData(self._core, self.id, self._root, holder), base64.b64decode(template.get("UserData", "")))
            if isinstance(holder, Holder):
                self._part_containers()
            joined = "running" if self._registers() else "failed"
        except BaseException:
            self._core.after(0, lambda: self.join("failed"))
            raise
        finally:
            if self.gone:
                self.stop()
        self._core.after(self._core.settings.machine_boot_seconds, lambda: self.join(joined))

    def _registers(self) -> bool:
        """Whether the agent can join the cluster and request work with the machine's role."""
        authorize, region = self._core.host.authorize, self.environment.region
        cluster = self.environment.detail["ecsClusterArn"]
        asked = {"ecs:RegisterContainerInstance": cluster, "ecs:Poll": self.arn, "ecs:SubmitTaskStateChange": cluster}
        return all(authorize(self.role_arn, action, arn, region) for action, arn in asked.items())

    def _template(self) -> Json:
        template = self.environment.resources.get("launchTemplate")
        if not template:
            return {}
        ec2 = service_client("ec2", self.environment.region)
        versions = ec2.describe_launch_template_versions(**template_version(template))
        return versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]

    def _connect(self) -> Holder | Ports:
        self._root.mkdir(parents=True)
        metadata: dict[Address, WsgiApp] = {METADATA: InstanceMetadata(self)}
        if refused(self._core):
            self._holder = Ports(self._root, list(metadata))
            self._serve(self._holder.sockets, metadata)
        else:
            self._holder = self._hold(metadata)
        return self._holder

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
        settings = self._root.glob("etc/systemd/system/ecstasks.slice.d/*.conf")
        if any(re.search(rf"^IPAddressDeny=.*{METADATA[0]}", each.read_text(), re.MULTILINE) for each in settings):
            self._apart = self._hold({})

    def _cloud(self, environ: Json, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The AWS endpoint as programs on the machine see it, without localcloud's own controls."""
        if environ["PATH_INFO"].startswith("/_localcloud"):
            start_response("404 Not Found", [("Content-Length", "0")])
            return []
        return self._core.host.app(environ, start_response)

    def _run(self, user_data: UserData, content: bytes) -> None:
        """Run user data, read what it set and mounted, and start its services."""
        self._user_data = user_data
        user_data.run(content)
        self._mounts.read(user_data.commands())
        config = self._root / "etc/ecs/ecs.config"
        if config.is_file():
            lines = (line.partition("=") for line in config.read_text().splitlines())
            self.config |= {key.strip(): value.strip() for key, _, value in lines}
        user_data.start_units()
        # The host service describes the machine, for which a real agent's start leaves it seconds.
        end = time.monotonic() + DESCRIPTION_SECONDS
        while not self.path(DESCRIPTION).exists() and time.monotonic() < end and not self.gone and user_data.works:
            time.sleep(0.02)

    def stop(self) -> None:
        """End its processes and sockets, and remove its disk."""
        self.gone = True
        if self._user_data:
            self._user_data.kill()
        for holder in (self._holder, self._apart):
            if holder:
                holder.close()
        for served in self._served:
            served.close()
        shutil.rmtree(self._root, ignore_errors=True)


@cache
def refused(core: Core) -> str:
    """Say why machines and children get no namespaces here; empty if they do. This is tried once and logged."""
    problem = namespaces.refusal(core.settings.state_dir) if core.settings.namespaces else namespaces.OFF
    if problem:
        log.warning(namespaces.notice(problem))
    return problem
