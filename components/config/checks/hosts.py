"""Rules of mounts that are folders of the machine: none hands the machine itself to its jobs.

Who may write to the folders of the machine's system, or reach its sockets, is root there, whatever a container's own
rights: https://docs.docker.com/engine/security/#docker-daemon-attack-surface
"""

from __future__ import annotations

from collections.abc import Sequence

from components.config.errors import ConfigError, key_path, shown
from components.config.mount_models import Mount

_CLOSED = (
    "/boot", "/proc", "/root", "/run", "/sys", "/var/lib/cloud", "/var/lib/containerd", "/var/lib/docker",
    "/var/lib/ecs", "/var/lib/tidemill", "/var/run",
)  # fmt: skip
"""What starts containers and workers, and its credentials. Sockets work through a read-only mount, too."""
_READABLE = ("/bin", "/etc", "/lib", "/lib64", "/sbin", "/usr")


def check_host(path: Sequence[str | int], name: str, mount: Mount) -> None:
    """A folder of the machine must not be the machine's own.

    Raises:
        ConfigError: jobs could become root on the machine.
    """
    here = key_path([*path, "host"])
    if mount.host is None:
        return
    if _touches(mount.host, _CLOSED):
        allowed = f"folders outside {', '.join(_CLOSED)}, with which a job would be root on the machine"
        raise ConfigError(here, shown(mount.host), allowed, f"Take a folder such as /mnt/disks/{name}")
    if _touches(mount.host, _READABLE) and not mount.read_only:
        allowed = f"{', '.join(_READABLE)} with read_only; a job that writes there would be root on the machine"
        raise ConfigError(
            here, shown(mount.host), allowed, f"Set read_only, or take a folder such as /mnt/disks/{name}"
        )


def _touches(folder: str, those: tuple[str, ...]) -> bool:
    """Whether a folder is one of those, is in one, or holds one."""
    return any(f"{folder}/".startswith(f"{each}/") or f"{each}/".startswith(f"{folder}/") for each in those)
