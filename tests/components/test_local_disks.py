"""Scratch on the machines' own disks. The scripts run in a real bash with stand-ins for mdadm, mkfs and mount: that
Amazon Linux and Container-Optimized OS have these programs and name the disks so is assumed."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.services.batch.user_data import script
from components.services.pubsub.cloud_init import SCRIPT
from tests.components.stacks import IMAGE, run_stack

AWS, GCP = (
    Path(__file__).parents[2] / "components/services" / each / "local_disks.sh" for each in ("batch", "pubsub/host")
)
MODELS = {"root": "Amazon Elastic Block Store", "local": "Amazon EC2 NVMe Instance Storage"}
NAMES = ("mdadm", "mkfs.xfs", "mkfs.ext4", "mount", "dnf", "mkdir")


class Machine:
    """A folder for a machine's paths, and what its script called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("bin", "etc", "dev/disk/by-id"):
            (folder / name).mkdir(parents=True)
        for name in NAMES:
            self.tool(name, f'echo "{name} $*" >>{folder}/calls')

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def run(self, path: Path) -> int:
        text = re.sub("/etc/fstab|/dev/", lambda found: f"{self.folder}{found[0]}", path.read_text())
        env = {"PATH": f"{self.folder}/bin:/usr/bin:/bin"}
        command = ["/bin/bash", "-eu", "-c", f"( {text}\n)"]
        return subprocess.run(command, env=env, capture_output=True, timeout=60, check=False).returncode

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().replace(str(self.folder), "").splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def on_aws(machine: Machine, local: int) -> int:
    disks = ["root", *(["local"] * local)]
    lines = "\n".join(f"/dev/nvme{n}n1 {MODELS[kind]}" for n, kind in enumerate(disks))
    machine.tool("lsblk", f"cat <<'EOF'\n{lines}\nEOF")
    return machine.run(AWS)


def on_gcp(machine: Machine, local: int) -> int:
    for number in range(local):
        (machine.folder / f"dev/disk/by-id/google-local-nvme-ssd-{number}").touch()
    (machine.folder / "dev/disk/by-id/google-persistent-disk-0").touch()
    return machine.run(GCP)


def test_one_disk_on_aws(machine):
    assert on_aws(machine, 1) == 0
    assert machine.calls == [
        "mkfs.xfs -q -f -K -L tidemill /dev/nvme1n1",
        "mkdir -p /var/lib/tidemill",
        "mount /var/lib/tidemill",
    ]
    assert (machine.folder / "etc/fstab").read_text().startswith("LABEL=tidemill /var/lib/tidemill xfs ")


def test_several_disks_on_aws_are_one(machine):
    assert on_aws(machine, 2) == 0
    assert machine.calls[0] == (
        "mdadm --create --run --level 0 --raid-devices 2 /dev/md/tidemill /dev/nvme1n1 /dev/nvme2n1"
    )
    assert machine.calls[1] == "mkfs.xfs -q -f -K -L tidemill /dev/md/tidemill"


def test_one_disk_on_gcp(machine):
    assert on_gcp(machine, 1) == 0
    disk = "/dev/disk/by-id/google-local-nvme-ssd-0"
    assert machine.calls == [
        f"mkfs.ext4 -q -F -E nodiscard {disk}",
        "mkdir -p /var/lib/tidemill",
        f"mount -o noatime {disk} /var/lib/tidemill",
    ]


def test_several_disks_on_gcp_are_one(machine):
    assert on_gcp(machine, 2) == 0
    assert machine.calls[0].startswith("mdadm --create --run --level 0 --raid-devices 2 /dev/md0 ")
    assert machine.calls[-1] == "mount -o noatime /dev/md0 /var/lib/tidemill"


@pytest.mark.parametrize("start", [on_aws, on_gcp])
def test_a_machine_without_disks_fails(machine, start):
    assert start(machine, 0) != 0
    assert machine.calls == []


@pytest.mark.parametrize("start", [on_aws, on_gcp])
@pytest.mark.parametrize("broken", ["mdadm", "mkfs", "mount"])
def test_a_step_that_fails_fails_the_machine(machine, start, broken):
    for name in NAMES:
        if name.startswith(broken):
            machine.tool(name, "exit 1")
    assert start(machine, 2) != 0


def test_the_disks_come_before_the_folders():
    text = script({}, local=True)
    assert text.index("( . /opt/tidemill/local_disks.sh ) || shutdown -h now\n") < text.index("install -d -m 1777")
    subprocess.run(["bash", "-n", "-c", text], check=True, timeout=60)
    assert "local_disks" not in script({})


def made(stack: str, kind: str, **queue: Any) -> dict[str, Any]:
    queues = {"cpu": {"images": {"default": IMAGE}, "scratch": "local", **queue}}
    return run_stack(stack, queues=queues).of(kind)[0].inputs


def test_a_queue_on_aws_pays_for_no_scratch_disk():
    template = made("demo-aws", "ec2.LaunchTemplate", machines={"families": ["c7gd", "m7gd"]}, scratch_gib=200)
    assert template["blockDeviceMappings"][0]["ebs"]["volumeSize"] == 50


@pytest.mark.parametrize(
    ("machines", "scratch", "taken"),
    [
        ({"families": ["z3"], "cpus": 88}, {}, "z3-highmem-88-standardlssd"),
        ({"families": ["z3"], "cpus": 88}, {"scratch_gib": 100}, "z3-highmem-88-standardlssd"),
        ({"families": ["z3"], "cpus": 22, "exclude": ["z3-highmem-22-standardlssd"]}, {"scratch_gib": 9000},
         "z3-highmem-22-highlssd"),
    ],
)  # fmt: skip
def test_of_two_types_with_disks_a_queue_takes_the_one_with_fewer(machines, scratch, taken):
    assert made("demo-gcp", "compute.RegionInstanceTemplate", machines=machines, **scratch)["machineType"] == taken


def test_a_queue_on_gcp_takes_types_with_disks():
    template = made("demo-gcp", "compute.RegionInstanceTemplate", machines={"families": ["c3d"], "cpus": 16})
    assert template["machineType"] == "c3d-standard-16-lssd"
    assert template["disks"][0]["diskSizeGb"] == 50
    files = {
        each["path"]: each["content"]
        for each in json.loads(template["metadata"]["user-data"].partition("\n")[2])["write_files"]
    }
    assert files["/etc/tidemill/local_disks.sh"] == SCRIPT.with_name("local_disks.sh").read_text()
    assert "\nSTEPS=('/bin/bash /etc/tidemill/local_disks.sh' folders " in files["/etc/tidemill/settings"]
