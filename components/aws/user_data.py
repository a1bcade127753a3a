"""What a machine does when it starts, before the ECS agent joins: settings of the agent, folders, mounts.

Nothing here changes with a release of Tidemill: each change is an infrastructure update of every compute environment.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from components.config import Mount

SCRATCH = "/var/lib/tidemill/scratch"
CACHE = "/var/lib/tidemill/cache"
S3_MOUNTS = "/var/lib/tidemill/s3"

AGENT_SETTINGS = {
    # Else a released chunk is placed again on the machine that is going away.
    "ECS_ENABLE_SPOT_INSTANCE_DRAINING": "true",
    # Lines are written with the execution role, so that the instance role needs no logs permission.
    "ECS_ENABLE_AWSLOGS_EXECUTIONROLE_OVERRIDE": "true",
    # Images are pinned: what is on the machine need not be pulled again for each chunk.
    "ECS_IMAGE_PULL_BEHAVIOR": "prefer-cached",
}
"""Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-agent-config.html"""

_BOUNDARY = "==TIDEMILL=="
_GIVE_UP = "shutdown -h now"


def script(mounts: Mapping[str, Mount]) -> str:
    """The shell script of a machine, for a queue's mounts by name."""
    settings = "\n".join(f"{key}={value}" for key, value in AGENT_SETTINGS.items())
    folders = [SCRATCH, CACHE, *sorted({m.host for m in mounts.values() if m.host})]
    lines = [
        "#!/bin/bash",
        "set -eu",
        "mkdir -p /etc/ecs",
        f"cat >> /etc/ecs/ecs.config <<'EOF'\n{settings}\nEOF",
        *(f"install -d -m 1777 {folder}" for folder in folders),
        *_mountpoint({name: m.s3 for name, m in sorted(mounts.items()) if m.s3}),
    ]
    return "\n".join(lines) + "\n"


def _mountpoint(buckets: Mapping[str, str]) -> list[str]:
    """Mountpoint for Amazon S3; its package is in the repositories of AL2023, which S3 serves.

    The machine's own role reads nothing of S3, so a bucket that is mounted must admit it: `AwsBatchQueue` grants that.
    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mountpoint-installation.html
    """
    if not buckets:
        return []
    # A machine without its mounts must not take jobs: the agent joins only after this script.
    lines = [f"dnf install -y mount-s3 || {_GIVE_UP}"]
    for name, uri in buckets.items():
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        where = f"{S3_MOUNTS}/{name}"
        only = f" --prefix {shlex.quote(prefix.rstrip('/') + '/')}" if prefix else ""
        lines += [f"install -d {where}", f"mount-s3 --read-only --allow-other{only} {bucket} {where} || {_GIVE_UP}"]
    return lines


def user_data(mounts: Mapping[str, Mount]) -> str:
    """The script as base64 of a MIME multi-part document: Batch adds a part of its own to it.

    Source: https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html
    """
    message = MIMEMultipart(boundary=_BOUNDARY)
    message.attach(MIMEText(script(mounts), "x-shellscript", "us-ascii"))
    return base64.b64encode(message.as_bytes()).decode()
