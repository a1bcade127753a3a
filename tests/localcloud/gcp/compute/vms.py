"""VMs of a host that records what its API is asked."""

from __future__ import annotations

import socket
import textwrap
from pathlib import Path
from typing import Any

from localcloud.gcp.clock import Clock
from localcloud.gcp.compute.metadata import CLOUD_PLATFORM
from localcloud.gcp.compute.vm import Vm
from localcloud.gcp.compute.vm_host import REGISTRIES, VmHost
from localcloud.gcp.wire import Request, Response
from localcloud.machines import namespaces
from localcloud.machines.images import Registry
from tests.localcloud.waiting import until

ACCOUNT = "worker@p.iam.gserviceaccount.com"

UNIT = """
[Unit]
Description=a worker
Wants=network-online.target
After=docker.service network-online.target
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Environment=HOME=/var/lib/w "GREETING=hello there"
ExecStart=/bin/bash /etc/w/run.sh
ExecStop=-/usr/bin/docker stop --time 20 w
TimeoutStopSec=30
KillMode=mixed
"""


def cloud_config(script: str, unit: str = UNIT, more: str = "") -> str:
    """A cloud-config that starts the unit w.service, which runs the script."""
    files = (("/etc/w/run.sh", textwrap.dedent(script)), ("/etc/systemd/system/w.service", unit))
    written = "".join(f"- path: {path}\n  content: |\n{textwrap.indent(text, '    ')}\n" for path, text in files)
    start = "runcmd:\n- [systemctl, daemon-reload]\n- [systemctl, start, --no-block, w.service]\n"
    return f"#cloud-config\nwrite_files:\n{written}{more}{start}"


class Site:
    """A folder, a registry and an API that records its requests, for VMs."""

    def __init__(self, state: Path) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self.denied: set[str] = set()
        self.vms: list[Vm] = []
        self.off: list[str] = []
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        self.host = VmHost(
            state / "compute", Clock(), port, self._serve, Registry(state / "images", REGISTRIES),
            lambda _, permission, __: permission not in self.denied,
            lambda principal: {"access_token": f"of {principal}", "expires_in": 60, "token_type": "Bearer"},
        )  # fmt: skip
        self.host.refused = namespaces.refusal(state)

    def _serve(self, request: Request) -> Response:
        self.asked.append((request.method, f"/{request.api}/{request.path}", request.body))
        return Response.of({})

    def vm(self, user_data: str, **instance: Any) -> Vm:
        """A VM that has booted."""
        name = f"vm-{len(self.vms)}"
        account = {"email": ACCOUNT, "scopes": f"{CLOUD_PLATFORM}\n", "aliases": "default"}
        facts = {
            "instance": {"name": name, "service-accounts": {"default": account}, **instance},
            "project": {"project-id": "p"},
        }
        vm = Vm(self.host, name, facts, user_data, lambda: self.off.append(name))
        self.vms.append(vm)
        vm.boot()
        return vm

    def journal(self, vm: Vm) -> str:
        return (self.host.state / "journals" / f"{vm.name}.log").read_text()

    def ended(self, vm: Vm) -> str:
        """The journal of a VM after it has powered itself off."""
        until(lambda: vm.name in self.off or vm.problem)
        assert not vm.problem
        return self.journal(vm)

    def close(self) -> None:
        for vm in self.vms:
            vm.close()
        self.host.pool.shutdown()
        self.host.registry.close()
