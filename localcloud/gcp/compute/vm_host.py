"""What all emulated VMs share: folders, the daemon that they reach, images, permissions and tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from localcloud.gcp.clock import Clock
from localcloud.gcp.compute.managed import Json
from localcloud.gcp.compute.programs import standing_in
from localcloud.gcp.wire import Handle
from localcloud.machines.images import Registry

METADATA = ("169.254.169.254", 80)
REGISTRIES = re.compile(r"([a-z0-9-]+)-docker\.pkg\.dev")


@dataclass
class VmHost:
    """The parts that all VMs share.

    Attributes:
        state: Folder of disks and journals.
        clock: The cloud's clock.
        port: Port of the daemon; each VM also has it at 127.0.0.1.
        serve: Answers requests from a VM: the APIs, but no controls.
        registry: Source of images.
        allows: (principal, permission, resource) → whether the principal has the permission.
        token: principal → a new access token.
        pool: Starts processes, which end with the thread that started them.
        settings: Environment variables of containers, which override the template's.
        programs: Folder of the stand-in programs.
        refused: Why programs get no namespaces here, and are plain processes; empty if they do.
    """

    state: Path
    clock: Clock
    port: int
    serve: Handle
    registry: Registry
    allows: Callable[[str, str, str], bool]
    token: Callable[[str], Json]
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "vm"))
    settings: dict[str, str] = field(default_factory=dict)
    refused: str = ""

    def __post_init__(self) -> None:
        self.programs = standing_in(self.state, self.addresses())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def addresses(self) -> dict[str, str]:
        """Google's addresses, as `curl` resolves them on a VM."""
        here = {
            f"https://{api}.googleapis.com": f"{self.url}/{api}"
            for api in ("storage", "secretmanager", "pubsub", "logging")
        }
        return {**here, "http://metadata.google.internal": f"http://{METADATA[0]}"}
