"""The file systems of a machine: where its paths are on this one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from localcloud.aws.accounts import service_client
from localcloud.aws.batch.core import Core, log
from localcloud.aws.batch.instance import Instance


def file_system(core: Core, identity: str) -> Path:
    """Return the folder that represents an EFS file system."""
    folder = core.settings.state_dir / "efs" / identity
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Mounts:
    """The disk of one machine, and what its user data mounted there.

    Args:
        root: The folder that is its disk.
    """

    def __init__(self, core: Core, instance: Instance, root: Path) -> None:
        self._core, self._instance, self._root = core, instance, root
        self._mounted: dict[str, str] = {}

    def read(self, commands: Iterable[str]) -> None:
        """Read what user data mounted. Each EFS becomes a folder, and a bucket becomes a copy made now."""
        for line in commands:
            name, *words = line.split()
            if name.startswith("mount") and "-a" in words:
                entries = [each.split() for each in (self._root / "etc/fstab").read_text().splitlines()]
                self._mounted |= {each[1]: each[0] for each in entries if len(each) > 1 and each[0].startswith("fs-")}
            elif name.startswith("mount"):
                valued = {number + 1 for number, word in enumerate(words) if word in ("-o", "-t", "--prefix")}
                plain = [w for number, w in enumerate(words) if number not in valued and not w.startswith("-")]
                prefix = words[words.index("--prefix") + 1] if "--prefix" in words else ""
                if name == "mount-s3" and len(plain) > 1:
                    self._copy_bucket(plain[0], prefix, self._root / plain[1].lstrip("/"))
                elif len(plain) > 1:
                    self._mounted[plain[1]] = plain[0]

    def _copy_bucket(self, bucket: str, prefix: str, folder: Path) -> None:
        """Copy the objects that the instance role may read."""
        region, role = self._instance.environment.region, self._instance.role_arn
        s3, allowed = service_client("s3", region), self._core.host.authorize
        if not allowed(role, "s3:ListBucket", f"arn:aws:s3:::{bucket}", region):
            log.warning("mount-s3 on %s: %s may not list the bucket %s", self._instance.id, role, bucket)
            return
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            for key in [each["Key"] for each in page.get("Contents", [])]:
                name = key.removeprefix(prefix)
                if {"", ".", ".."} & set(name.split("/")):
                    continue  # Mountpoint shows no such name, and here it could lead out of the folder.
                if allowed(role, "s3:GetObject", f"arn:aws:s3:::{bucket}/{key}", region):
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    s3.download_file(bucket, key, str(target))

    def path(self, host_path: str) -> Path:
        """Return where a path of the machine is on this one."""
        for target, source in self._mounted.items():
            system = re.match(r"(fs-[0-9a-f]+)[^:]*(?::/?(.*))?$", source)
            if system and (host_path + "/").startswith(target.rstrip("/") + "/"):
                below = host_path.removeprefix(target.rstrip("/")).lstrip("/")
                return file_system(self._core, system[1]) / (system[2] or "") / below
        return self._root / host_path.lstrip("/")
