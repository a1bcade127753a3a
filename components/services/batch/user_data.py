"""A machine's start before the ECS agent joins: settings of the agent, folders, mounts, `host.py`.

A release of Tidemill must not change this: each change is an infrastructure update of every compute environment.
"""

import ast
import base64
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from pathlib import Path

from ...config import Mount
from ...outbound import proxy_variables

SCRATCH = "/var/lib/tidemill/scratch"
CACHE = "/var/lib/tidemill/cache"
WORKER = "/var/lib/tidemill/worker"
"""The folder that `host.py` keeps for containers."""
S3_MOUNTS = "/var/lib/tidemill/s3"

BUNDLE = "certificates.pem"
"""In the folder of `host.py`: the certificates that the machine trusts, for containers of a stack with its own."""

AGENT_SETTINGS = {
    # Otherwise Batch places a returned chunk on the same machine, which is stopping.
    "ECS_ENABLE_SPOT_INSTANCE_DRAINING": "true",
    # The execution role writes log lines, so that the instance role needs no logs permission.
    "ECS_ENABLE_AWSLOGS_EXECUTIONROLE_OVERRIDE": "true",
    # Images are pinned, so machines need not pull them again for each chunk.
    "ECS_IMAGE_PULL_BEHAVIOR": "prefer-cached",
}
"""Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-agent-config.html"""

_HOST = Path(__file__).with_name("host.py")
_DISKS = Path(__file__).with_name("local_disks.sh")
_PROGRAM = "/opt/tidemill/host.py"
_USER = "tidemill-host"
_UNIT = f"""\
[Unit]
Description=Tidemill: workers and Spot notices for containers
[Service]
User={_USER}
StateDirectory=tidemill/worker
UMask=0022
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
{{fetch}}ExecStart=/usr/bin/python3 {_PROGRAM} serve{{pointer}}
TimeoutStartSec=300
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
"""
"""It takes lines from containers, so it has no rights: a user of its own, who may write into the folder that systemd
gives it (`WORKER`), and nowhere else. `systemctl start` waits for what comes before its main program.

Source: https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html (StateDirectory=, ProtectSystem=)
"""
_NO_METADATA = """\
[Slice]
IPAddressDeny=169.254.169.254/32 fd00:ec2::254/128
"""
"""For the slice of all containers of ECS tasks: they are not the machine, and have no use for its role. The agent, this
script and the host's own services lie elsewhere; a task's own credentials come from 169.254.170.2.

Sources: https://www.freedesktop.org/software/systemd/man/latest/systemd.resource-control.html (IPAddressAllow=),
https://github.com/aws/amazon-ecs-agent/blob/master/agent/api/task/task_linux.go (buildCgroupV2Root)
"""
MOST_SCRIPT = 15_200
"""Characters of a machine's script: of EC2's 16 KiB, without 200 for the MIME document and an assumed 900 that Batch
adds for its cluster. Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html"""
_ANCHOR = "/etc/pki/ca-trust/source/anchors/tidemill.pem"
_TRUSTED = "/etc/pki/tls/certs/ca-bundle.crt"
_PROXY = "/etc/tidemill/proxy"
_BOUNDARY = "==TIDEMILL=="
_GIVE_UP = "shutdown -h now"


@dataclass(frozen=True)
class Way:
    """A machine's way out: a proxy, the value of NO_PROXY, and authorities to trust as PEM."""

    proxy: str | None = None
    past: str = ""
    certificates: str | None = None


_NO_WAY = Way()


def script(
    mounts: Mapping[str, Mount],
    pointer: str | None = None,
    *,
    local: bool = False,
    overcommit: bool = False,
    way: Way = _NO_WAY,
) -> str:
    """The shell script of a machine.

    Args:
        pointer: URI of the object that names the worker's image; None if the queue's images contain the worker.
        local: Whether scratch, cache and worker are on the machine's own disks.
        way: What is changed of how it reaches the world before anything does.
        overcommit: Whether programs may ask for more memory than there is, as NVIDIA's driver does on a small machine.
            Source: https://github.com/aws/amazon-ecs-ami (README.md, g6f.large)
    """
    settings = "\n".join(f"{key}={value}" for key, value in AGENT_SETTINGS.items())
    folders = [SCRATCH, CACHE, *sorted({m.host for m in mounts.values() if m.host})]
    lines = [
        "#!/bin/bash",
        "set -eu",
        "mkdir -p /etc/ecs",
        f"cat >> /etc/ecs/ecs.config <<'EOF'\n{settings}\nEOF",
        *_way(way),
        *(["sysctl -w vm.overcommit_memory=1"] if overcommit else []),
        *_local_disks(local),
        *(f"install -d -m 1777 {folder}" for folder in folders),
        *_host(pointer, way),
        *_mountpoint({name: m.s3 for name, m in sorted(mounts.items()) if m.s3}, way),
    ]
    return "\n".join(lines) + "\n"


def _way(way: Way) -> list[str]:
    """Trust and proxy of the machine, of Docker and of the ECS agent, which has not started yet.

    Docker reads certificates and its environment when it starts. The agent's container gets the machine's certificates
    from `ecs-init`.
    Sources: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/http_proxy_config.html and
    https://github.com/aws/amazon-ecs-agent/blob/master/ecs-init/docker/docker.go (getHostConfig)
    """
    lines = []
    if way.certificates:
        lines += [f"install -d {Path(_ANCHOR).parent}", _file(_ANCHOR, way.certificates)]
        lines.append(f"update-ca-trust || {_GIVE_UP}")
    if way.proxy:
        # The agent asks Docker by its socket.
        settings = proxy_variables(way.proxy, f"{way.past},/var/run/docker.sock")
        lines += [
            f"install -d {Path(_PROXY).parent}",
            _file(_PROXY, "".join(f"{key}={value}\n" for key, value in settings.items())),
            f"cat {_PROXY} >> /etc/ecs/ecs.config",
            "for unit in docker ecs; do",
            "install -d /etc/systemd/system/$unit.service.d",
            f"printf '[Service]\\nEnvironmentFile={_PROXY}\\n' > /etc/systemd/system/$unit.service.d/tidemill.conf",
            "done",
            f"set -a; . {_PROXY}; set +a",
            "systemctl daemon-reload",
        ]
    return [*lines, "systemctl try-restart docker.service"] if lines else []


def _local_disks(local: bool) -> list[str]:
    """A machine without its disks must not take jobs: on the root volume they would fill it."""
    if not local:
        return []
    path = "/opt/tidemill/local_disks.sh"
    return [f"install -d {Path(path).parent}", _file(path, _DISKS.read_text()), f"( . {path} ) || {_GIVE_UP}"]


def _host(pointer: str | None, way: Way) -> list[str]:
    """`host.py` as a service, and the launcher before the first container starts."""
    fetch = f"EnvironmentFile={_PROXY}\n" if way.proxy else ""
    fetch += f"ExecStartPre=/usr/bin/python3 {_PROGRAM} fetch {pointer}\n" if pointer else ""
    unit = _UNIT.format(fetch=fetch, pointer=f" {pointer}" if pointer else "")
    start = "systemctl enable --now tidemill-host.service"
    return [
        f"install -d -m 755 {WORKER} {_PROGRAM.rpartition('/')[0]} /etc/systemd/system/ecstasks.slice.d",
        *([f"cp {_TRUSTED} {WORKER}/{BUNDLE} || {_GIVE_UP}"] if way.certificates else []),
        # An image that was made from a machine has the user.
        f"id {_USER} || useradd --system --no-create-home --shell /sbin/nologin {_USER}",
        _file(_PROGRAM, _bare(_HOST.read_text())),
        _file("/etc/systemd/system/tidemill-host.service", unit),
        _file("/etc/systemd/system/ecstasks.slice.d/tidemill.conf", _NO_METADATA),
        "systemctl daemon-reload",
        f"{start} || {_GIVE_UP}" if pointer else start,
    ]


def _bare(program: str) -> str:
    """A program without docstrings, comments and empty lines, and indented by tabs: user data has no room for more."""
    lines = program.splitlines(keepends=True)
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for number in range(node.lineno - 1, node.end_lineno or 0):
                lines[number] = ""
    kept = (line for line in lines if line.strip() and not line.lstrip().startswith("# "))
    return "".join(re.sub(r"^(    )+", lambda match: "\t" * (len(match[0]) // 4), line) for line in kept)


def _file(path: str, content: str) -> str:
    return f"cat > {path} <<'EOF'\n{content}EOF"


def _mountpoint(buckets: Mapping[str, str], way: Way) -> list[str]:
    """Mountpoint for Amazon S3, a package in the repositories of AL2023, which S3 serves.

    The machine's own role must be able to read the mounts: `Pipeline` grants that; a queue alone declares
    `reads_mounts`.
    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mountpoint-installation.html
    """
    if not buckets:
        return []
    # A machine without its mounts must not take jobs; the agent joins only after this script.
    direct = "env -u HTTP_PROXY -u HTTPS_PROXY -u http_proxy -u https_proxy " if way.proxy else ""
    lines = [f"dnf install -y mount-s3 || {_GIVE_UP}"]
    for name, uri in buckets.items():
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        where = f"{S3_MOUNTS}/{name}"
        only = f" --prefix {shlex.quote(prefix.rstrip('/') + '/')}" if prefix else ""
        # With a proxy it would ask for the machine's credentials through it: it knows no NO_PROXY.
        # Source: https://github.com/awslabs/mountpoint-s3/issues/322
        lines += [
            f"install -d {where}",
            f"{direct}mount-s3 --read-only --allow-other{only} {bucket} {where} || {_GIVE_UP}",
        ]
    return lines


def user_data(
    mounts: Mapping[str, Mount],
    pointer: str | None = None,
    *,
    local: bool = False,
    overcommit: bool = False,
    way: Way = _NO_WAY,
) -> str:
    """The script as base64 of a MIME multi-part document, to which Batch adds its own part. EC2's limit is 16 KiB.

    Source: https://docs.aws.amazon.com/batch/latest/userguide/launch-templates.html
    """
    message = MIMEMultipart(boundary=_BOUNDARY)
    text = script(mounts, pointer, local=local, overcommit=overcommit, way=way)
    message.attach(MIMEText(text, "x-shellscript", "us-ascii"))
    return base64.b64encode(message.as_bytes()).decode()
