"""A machine's boot: the cloud-config with its unit, script and settings.

The script is the same for every queue (`host/run.sh`); only data differs. The worker's image is its only trace of a
Tidemill release: running machines keep theirs, new ones start with the new one.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pulumi

from tidemill.descriptor import MIN_WORKER

from ...config import Mount, Queue
from ...config.later import is_plain
from ...machines import MachineType
from ..queues import worker_variables

SCRIPT = Path(__file__).parent / "host" / "run.sh"

_STATE = "/var/lib/tidemill"
_TREE = "/tidemill"
_DISKS = "/etc/tidemill/local_disks.sh"
_OUTBOUND = "/etc/tidemill/outbound.sh"
_TRUST = "/etc/tidemill"
"""The folder of the certificates in containers."""
BUNDLE = f"{_TRUST}/certificates.pem"
"""The certificates that the machine trusts, in containers of a stack with its own."""
_FUSE = "/mnt/disks/gcs"
_BEFORE_THE_END_SECONDS = 600
"""The worker plans to end this long before the unit does, so that it can drain."""
_STOP_SECONDS = 25
"""Compute Engine gives a Spot machine 30 seconds.
Source: https://cloud.google.com/compute/docs/instances/spot#preemption-process"""

_UNIT = f"""\
[Unit]
Description=Tidemill worker
Wants=network-online.target docker.service
After=network-online.target docker.service
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Type=simple
RuntimeMaxSec={{age}}
Environment=HOME={_STATE}/home
ExecStart=/bin/bash /etc/tidemill/run.sh
ExecStop=-/usr/bin/docker stop --time {_STOP_SECONDS} tidemill
TimeoutStopSec={_STOP_SECONDS + 5}
KillMode=mixed
"""


@dataclass
class Host:
    """A machine's settings, apart from its queue's."""

    queue: str
    image: pulumi.Input[str]
    worker_image: pulumi.Input[str] | None
    bucket: pulumi.Input[str]
    subscription: pulumi.Input[str]
    log: pulumi.Input[str] | None
    region: pulumi.Input[str]
    machines: Sequence[MachineType]
    worker_image_arm64: pulumi.Input[str] | None = None
    """The worker's image for arm64 machines, in a queue that has others as well."""
    nfs: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Address and share of each mount over NFS, by the mount's name."""
    variables: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Variables of containers for a proxy and certificates."""
    certificates: str | None = None
    """Authorities to trust in addition to the public ones, as PEM."""

    @property
    def proxied(self) -> dict[str, str]:
        """Variables of Docker's unit; empty without a proxy."""
        return {key: str(value) for key, value in self.variables.items() if key.endswith("_PROXY")}


def nfs_sources(settings: Queue, made: Mapping[str, pulumi.Input[str]]) -> dict[str, pulumi.Input[str]]:
    """Sources of a queue's mounts over NFS by the mount's name: what exists, and what the stack has made."""
    named = {name: mount.filestore or made.get(mount.file_system or "") for name, mount in settings.mounts.items()}
    return {name: source for name, source in named.items() if source is not None}


def cloud_config(settings: Queue, host: Host) -> pulumi.Output[str]:
    """The `user-data` of a machine: cloud-init's first line, then JSON, which is also YAML."""
    fields = {key: value for key, value in vars(host).items() if key != "machines"}

    def render(values: Mapping[str, Any]) -> dict[str, Any]:
        return _document(settings, Host(**values, machines=host.machines))

    return pulumi.Output.concat(
        "#cloud-config\n", pulumi.Output.json_dumps(pulumi.Output.from_input(fields).apply(render), indent=1)
    )


def _document(settings: Queue, host: Host) -> dict[str, Any]:
    files = {
        "/etc/systemd/system/tidemill.service": (_UNIT.format(age=_age(settings)), "0644"),
        "/etc/tidemill/run.sh": (SCRIPT.read_text(encoding="utf-8"), "0644"),
        "/etc/tidemill/settings": (_settings(settings, host), "0644"),
        "/etc/tidemill/env": (_lines(environment(settings, host)), "0644"),
    }
    if settings.scratch == "local":
        files[_DISKS] = (SCRIPT.with_name("local_disks.sh").read_text(encoding="utf-8"), "0644")
    if host.variables:
        files[_OUTBOUND] = (SCRIPT.with_name("outbound.sh").read_text(encoding="utf-8"), "0644")
    if proxied := host.proxied:
        lines = "".join(f'Environment="{key}={value}"\n' for key, value in proxied.items())
        files["/etc/systemd/system/docker.service.d/tidemill.conf"] = (f"[Service]\n{lines}", "0644")
    if host.certificates:
        files["/etc/tidemill/certificates.pem"] = (host.certificates, "0644")
    return {
        "write_files": [
            {"path": path, "owner": "root:root", "permissions": mode, "content": content}
            for path, (content, mode) in files.items()
        ],
        "runcmd": [["systemctl", "daemon-reload"], ["systemctl", "start", "--no-block", "tidemill.service"]],
    }


def environment(settings: Queue, host: Host) -> dict[str, str]:
    """The worker's variables, except the secrets and the machine's end."""
    variables = {
        "TIDEMILL_STORE": f"gs://{host.bucket}",
        "TIDEMILL_QUEUE": host.queue,
        "TIDEMILL_REGION": str(host.region),
        "TIDEMILL_SUBSCRIPTION": str(host.subscription),
        "TIDEMILL_IDLE_SECONDS": str(settings.gcp.idle_minutes * 60),
        "TIDEMILL_SLOTS": "machine",
        "TIDEMILL_SCRATCH": "/scratch",
        "TIDEMILL_CACHE": "/cache",
        # An image may contain its own worker, of any age.
        "TIDEMILL_MIN_WORKER": MIN_WORKER,
        **worker_variables("gcp", settings),
        **{key: str(value) for key, value in host.variables.items()},
    }
    return variables | ({"TIDEMILL_LOG": str(host.log)} if host.log else {})


def _settings(settings: Queue, host: Host) -> str:
    """Shell variables of the script."""
    plain = {
        "QUEUE": host.queue,
        "IMAGE": str(host.image),
        "BUCKET": str(host.bucket),
        "MIN_MACHINES": str(settings.gcp.min_machines),
        "AGE_SECONDS": str(_age(settings) - _BEFORE_THE_END_SECONDS),
    }
    lists = {
        "STEPS": steps(settings, host),
        "SECRETS": [
            f"{key}={version(reference)}" for key, reference in sorted(settings.secrets.items()) if is_plain(reference)
        ],
        "OPTIONS": options(settings, host),
        "COMMAND": ["start"] if host.worker_image else ["python3", "-m", "tidemill.worker"],
    }
    text = _lines({key: shlex.quote(value) for key, value in plain.items()}) + _lines(
        {key: f"({shlex.join(values)})" for key, values in lists.items()}
    )
    if host.worker_image_arm64:
        arm64 = shlex.join(steps(settings, replace(host, worker_image=host.worker_image_arm64)))
        text += f'[ "$(uname -m)" != aarch64 ] || STEPS=({arm64})\n'
    return text


def _age(settings: Queue) -> int:
    """Seconds after which systemd stops a machine's unit, which powers the machine off (ADR 34)."""
    return settings.gcp.max_age_hours * 3600


def _lines(values: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in values.items())


def steps(settings: Queue, host: Host) -> list[str]:
    """Functions of the script, with arguments, that prepare a machine of this queue."""
    commands = ["folders"] if settings.scratch == "disk" else [f"/bin/bash {_DISKS}", "folders"]
    if host.variables:
        commands.append(f"/bin/bash {_OUTBOUND}")
    if settings.item.gpus:
        commands.append("gpu_driver")
    if settings.gcp.extra_disk_gib:
        commands.append("extra_disk")
    commands += [f"folder {mount.host}" for mount in _mounts(settings).values() if mount.host]
    images = [str(image) for image in (host.image, host.worker_image) if image]
    registries = sorted({image.partition("/")[0] for image in images if is_google(image)})
    if registries:
        commands.append(f"login {','.join(registries)}")
    if host.worker_image:
        commands.append(f"tree {host.worker_image}")
    commands.append("image")
    return commands + [_fuse(settings, name, mount) for name, mount in _mounts(settings).items() if mount.gcs]


def is_google(image: str) -> bool:
    """True if an image is in Artifact Registry, to which this machine's account logs in."""
    host = image.partition("/")[0]
    return host.endswith(("-docker.pkg.dev", "gcr.io"))


def _fuse(settings: Queue, name: str, mount: Mount) -> str:
    assert mount.gcs is not None
    bucket, _, prefix = mount.gcs.removeprefix("gs://").partition("/")
    how = "allow_other,ro" if mount.read_only else "allow_other"
    return f"fuse {settings.gcp.fuse_image} {name} {bucket} {how} {prefix}".rstrip()


def options(settings: Queue, host: Host) -> list[str]:
    """Options of `docker run` for the worker's container."""
    volumes = [f"{_STATE}/scratch:/scratch", f"{_STATE}/cache:/cache"]
    words: list[str] = []
    if host.certificates:
        volumes.append(f"{_STATE}/trust:{_TRUST}:ro")
    if host.worker_image:
        volumes.append(f"{_STATE}/worker:{_TREE}:ro")
        words += ["--entrypoint", f"{_TREE}/tidemill-worker"]
    if settings.shared_memory_mib:
        words += ["--shm-size", f"{settings.shared_memory_mib}m"]
    for key, limit in sorted(settings.ulimits.items()):
        words += ["--ulimit", f"{key}={limit}:{limit}"]
    for key in sorted(settings.secrets):
        words += ["--env", key]
    words += _gpus(settings, host)
    for name, mount in _mounts(settings).items():
        mode = ":ro" if mount.read_only else ""
        if source := host.nfs.get(name):
            words += ["--mount", _nfs(name, str(source), mount)]
        else:
            volumes.append(f"{mount.host or f'{_FUSE}/{name}'}:{mount.path}{mode}")
    return [*words, *(word for volume in volumes for word in ("--volume", volume))]


def _mounts(settings: Queue) -> dict[str, Mount]:
    return dict(sorted(settings.mounts.items()))


def _nfs(name: str, source: str, mount: Mount) -> str:
    """A volume that Docker itself mounts: Container-Optimized OS has the kernel's NFS but no mount.nfs.

    Source: https://docs.docker.com/engine/storage/volumes/#create-a-service-which-creates-an-nfs-volume
    """
    address, _, share = source.partition(":")
    how = f'"volume-opt=o=addr={address},nfsvers=3,nolock,{"ro" if mount.read_only else "rw"}"'
    read_only = ",readonly" if mount.read_only else ""
    return (
        f"type=volume,source=tidemill-{name},target={mount.path}{read_only},volume-driver=local,"
        f"volume-opt=type=nfs,volume-opt=device=:{share},{how}"
    )


def _gpus(settings: Queue, host: Host) -> list[str]:
    """Source: https://cloud.google.com/container-optimized-os/docs/how-to/run-gpus"""
    if not settings.item.gpus:
        return []
    devices = ["nvidia-uvm", "nvidiactl", *(f"nvidia{number}" for number in range(min(m.gpus for m in host.machines)))]
    folders = [f"/var/lib/nvidia/{each}:/usr/local/nvidia/{each}" for each in ("lib64", "bin")]
    return [word for folder in folders for word in ("--volume", folder)] + [
        word for device in devices for word in ("--device", f"/dev/{device}:/dev/{device}")
    ]


def version(reference: str) -> str:
    """A secret's version; the newest if the reference names none."""
    return reference if "/versions/" in reference else f"{reference}/versions/latest"
