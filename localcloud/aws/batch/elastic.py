"""EFS volumes of a container: their folders, and what EFS lets a job do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localcloud.aws import efs
from localcloud.aws.accounts import ACCOUNT
from localcloud.aws.batch.core import Core, Json
from localcloud.aws.batch.instance import Instance
from localcloud.aws.batch.mounts import file_system


class UnmountableError(Exception):
    """A volume cannot be mounted; the text says why."""


@dataclass(frozen=True)
class ElasticVolumes:
    """The EFS volumes of one container.

    Attributes:
        machine: Where the container runs.
        region: The job's region.
        role_arn: The job's role, empty if it has none.
    """

    core: Core
    machine: Instance
    region: str
    role_arn: str

    def folder(self, volume: Json) -> Path:
        """The folder of a volume: with an access point the one that EFS makes at the first mount.

        Raises:
            UnmountableError: There is no mount target or no such folder, or EFS refuses the job.
        """
        name = volume["fileSystemId"]
        if not efs.has_target(name, self.region, self.machine.zone):
            raise UnmountableError(f"{name} has no mount target in {self.machine.zone}")
        if not self._allowed("Mount", volume):
            raise UnmountableError(f"access denied by server while mounting {name}")
        folder = file_system(self.core, name) / volume.get("rootDirectory", "/").lstrip("/")
        if point := efs.access_point(volume.get("authorizationConfig", {}).get("accessPointId", ""), self.region):
            folder /= efs.root_of(point)
            folder.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            raise UnmountableError(f"{name} has no folder {volume['rootDirectory']}")
        return folder

    def may_write(self, volume: Json) -> bool:
        """Whether EFS lets the job write."""
        return self._allowed("Write", volume)

    def _allowed(self, action: str, volume: Json) -> bool:
        """Without a policy of its own, a file system admits every client that reaches it."""
        arn = f"arn:aws:elasticfilesystem:{self.region}:{ACCOUNT}:file-system/{volume['fileSystemId']}"
        if efs.policy(arn) is None:
            return True
        wanted = volume.get("authorizationConfig", {})
        if wanted.get("iam") != "ENABLED":  # an anonymous client; policies that admit one are not evaluated
            return False
        point = efs.access_point(wanted.get("accessPointId", ""), self.region)
        context = efs.client_context(point, secure=volume.get("transitEncryption") == "ENABLED")
        return self.core.host.authorize(self.role_arn, f"{efs.CLIENT}{action}", arn, self.region, context)
