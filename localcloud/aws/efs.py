"""What moto's EFS lacks, and who may mount a file system.

https://docs.aws.amazon.com/efs/latest/ug/api-reference.html
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

from moto.efs.exceptions import FileSystemNotFound, PolicyNotFound
from moto.efs.models import AccessPoint, FileSystem, efs_backends
from moto.efs.responses import EFSResponse

from localcloud.aws.accounts import ACCOUNT
from localcloud.aws.iam import Context
from localcloud.aws.mended.method import method

CLIENT = "elasticfilesystem:Client"
_JSON = {"Content-Type": "application/json"}


def _found(response: EFSResponse) -> FileSystem:
    name = response._get_param("FileSystemId")
    if name not in response.efs_backend.file_systems_by_id:
        raise FileSystemNotFound(name)
    return response.efs_backend.file_systems_by_id[name]


@method(EFSResponse, "update_file_system")
def _update(response: EFSResponse) -> Any:
    system = _found(response)
    system.throughput_mode = response._get_param("ThroughputMode") or system.throughput_mode
    return json.dumps(system.info_json()), {"status": 202, **_JSON}


@method(EFSResponse, "put_backup_policy")
def _put_backup(response: EFSResponse) -> Any:
    wanted = response._get_param("BackupPolicy")
    _found(response)._backup = wanted["Status"] == "ENABLED"
    return json.dumps({"BackupPolicy": wanted}), _JSON


@method(EFSResponse, "delete_file_system_policy")
def _delete_policy(response: EFSResponse) -> Any:
    system = _found(response)
    if not system.file_system_policy:
        raise PolicyNotFound("None")
    system.file_system_policy = None
    return "", {"status": 200}


def tags(arn: str, region: str) -> dict[str, str]:
    """Tags of a file system or an access point, by ARN."""
    return efs_backends[ACCOUNT][region].tagging_service.get_tag_dict_for_resource(arn.rpartition("/")[2])


def policy(arn: str) -> str | None:
    """The JSON of a file system's own policy, or None."""
    found = efs_backends[ACCOUNT][arn.split(":")[3]].file_systems_by_id.get(arn.rpartition("/")[2])
    return found.file_system_policy if found else None


def of_target(target: str, region: str) -> str:
    """The id of a mount target's file system; `*` if there is none."""
    found = efs_backends[ACCOUNT][region].mount_targets_by_id.get(target)
    return found.file_system_id if found else "*"


def has_target(file_system: str, region: str, zone: str) -> bool:
    """Whether a file system that was made here has a mount target in a zone; any other has one everywhere."""
    found = efs_backends[ACCOUNT][region].file_systems_by_id.get(file_system)
    return found is None or any(target.availability_zone_name == zone for target in found.iter_mount_targets())


def access_point(name: str, region: str) -> AccessPoint | None:
    """An access point by its id, or None."""
    return efs_backends[ACCOUNT][region].access_points.get(name)


def root_of(point: AccessPoint) -> PurePosixPath:
    """The folder that clients of an access point see as the root, without its slash."""
    return PurePosixPath(point.root_directory["Path"].lstrip("/"))


def client_context(point: AccessPoint | None, *, secure: bool) -> Context:
    """The condition keys of a client that mounts through a mount target.

    Args:
        point: The access point that it mounts through.
        secure: Whether it mounts with TLS.

    https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html
    """
    keys = {"elasticfilesystem:accessedviamounttarget": "true", "aws:securetransport": str(secure).lower()}
    return keys | ({"elasticfilesystem:accesspointarn": point.access_point_arn} if point else {})
