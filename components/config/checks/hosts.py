"""Rules of mounts that are folders of the machine: none hands the machine itself to its jobs."""

from collections.abc import Mapping, Sequence

from tidemill.mountable import MOUNTABLE, mountable

from ..errors import ConfigError, key_path, shown
from ..mount_models import Mount


def check_nested(path: Sequence[str | int], mounts: Mapping[str, Mount]) -> None:
    """No folder of the machine lies in another one that is mounted.

    Raises:
        ConfigError: a job could put a link in its place, which the next container would mount.
    """
    hosts = {name: mount.host for name, mount in mounts.items() if mount.host}
    for name, inner in hosts.items():
        for outer in hosts.values():
            if inner != outer and inner.startswith(f"{outer}/"):
                allowed = f"no folder in {outer}, which is mounted as well: a job could put a link to the machine there"
                raise ConfigError(key_path([*path, name, "host"]), shown(inner), allowed, f"Mount {outer} alone")


def check_host(path: Sequence[str | int], name: str, mount: Mount, cloud: str) -> None:
    """A folder of the machine must not be the machine's own.

    Raises:
        ConfigError: jobs could become root on the machine.
    """
    if mount.host is not None and not mountable(cloud, mount.host):
        allowed = f"folders below {' or '.join(MOUNTABLE[cloud])}; with others a job would be root on the machine"
        raise ConfigError(
            key_path([*path, "host"]), shown(mount.host), allowed, f"Take a folder such as /mnt/disks/{name}"
        )
