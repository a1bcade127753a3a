"""A machine's script, run by a real bash with stand-ins for the programs of Container-Optimized OS.

The paths of the machine point into a folder. That docker, curl and mount behave so on the real system is assumed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.services.pubsub import cloud_init
from components.services.pubsub.cloud_init import SCRIPT, Host, cloud_config, nfs_sources
from components.services.pubsub.keys import parsed
from tests.components.recording import run
from tests.components.stacks import IMAGE

WORKER = "us-docker.pkg.dev/p/r/tidemill-worker@sha256:" + 64 * "1"
FUSE = "docker.io/team/gcsfuse@sha256:" + 64 * "2"
ROOTS = ("/etc/tidemill", "/var/lib/tidemill", "/var/lib/nvidia", "/run/tidemill", "/mnt/disks")

DOCKER = """\
echo "docker $*" >>calls
case $1 in
  cp) touch "$3/tidemill-worker" ;;
  pull | create) exit "$(cat "$1.code" 2>/dev/null || echo 0)" ;;
  run)
    case $* in *--detach*) exit 0 ;; esac
    env >seen
    code=$(sed -n 1p codes); sed -i 1d codes
    case $code in slow*) code=${code#slow}; touch later ;; esac
    echo "a line"; echo 'the "last" \\ line' >&2
    exit "${code:-0}" ;;
esac
"""
CURL = """\
echo "curl $*" >>calls
case $* in
  *token) echo '{ "access_token": "t0ken", "expires_in": 3599 }' ;;
  *instance/name) echo cpu-spot-x1y2 ;;
  *:access) cat secret 2>/dev/null || exit 22 ;;
  *fleet%2Fwarm*) cat warm 2>/dev/null || exit 22 ;;
  *uploadType*) for each in "$@"; do case $each in @*) cp "${each#@}" record ;; esac; done ;;
esac
"""
OTHERS = ("mount", "mountpoint", "docker-credential-gcr", "cos-extensions", "mkfs.ext4", "sleep")


def settings(**more: Any) -> Any:
    return parsed({"images": {"default": IMAGE}, **more}, "cpu")


def host(queue: Any, worker_image: str | None = WORKER, image: str = IMAGE) -> Host:
    types = queue.types("gcp")
    subscription = "projects/p/subscriptions/work"
    nfs = nfs_sources(queue, {})
    return Host("cpu", image, worker_image, "store", subscription, "projects/p/logs/l", "us-west1", types, nfs=nfs)


def document(**more: Any) -> dict[str, Any]:
    """The cloud-config, as the template contains it."""
    worker, image = more.pop("worker_image", WORKER), more.pop("image", IMAGE)
    queue = settings(**more)
    found: list[str] = []
    run(lambda: cloud_config(queue, host(queue, worker, image)).apply(found.append))
    first, _, rest = found[0].partition("\n")
    assert first == "#cloud-config"
    return json.loads(rest)


def file(config: dict[str, Any], path: str) -> str:
    (found,) = [each for each in config["write_files"] if each["path"] == path]
    assert (found["owner"], found["permissions"]) == ("root:root", "0644")
    return found["content"]


class Machine:
    """A folder that the script sees as a machine."""

    def __init__(self, folder: Path, *codes: str, **more: Any) -> None:
        self.folder = folder
        config = document(**more)
        for path in ("/etc/tidemill/run.sh", "/etc/tidemill/settings", "/etc/tidemill/env"):
            target = folder / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.mapped(file(config, path)))
        tools = folder / "bin"
        tools.mkdir()
        for name in OTHERS:
            self.tool(name, f'echo "{name} $*" >>calls\n')
        self.tool("docker", DOCKER)
        self.tool("curl", CURL)
        # One exit code for each run of the worker.
        self.write("codes", "\n".join(codes) + "\n")

    def mapped(self, text: str) -> str:
        for root in ROOTS:
            text = text.replace(root, f"{self.folder}{root}")
        return text

    def tool(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\ncd {self.folder}\n{text}")
        path.chmod(0o755)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def start(self) -> subprocess.CompletedProcess[str]:
        self.done = subprocess.run(
            ["/bin/bash", str(self.folder / "etc/tidemill/run.sh")],
            env={"PATH": f"{self.folder / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return self.done

    def calls(self, start: str) -> list[str]:
        lines = (self.folder / "calls").read_text().splitlines()
        return [line.replace(str(self.folder), "") for line in lines if line.startswith(start)]

    @property
    def runs(self) -> list[str]:
        return [line for line in self.calls("docker run") if "--name tidemill " in line]

    @property
    def record(self) -> dict[str, str] | None:
        path = self.folder / "record"
        return json.loads(path.read_text()) if path.exists() else None


def test_the_unit_powers_the_machine_off_however_the_script_ends():
    config = document()
    assert {each["path"] for each in config["write_files"]} == {
        "/etc/systemd/system/tidemill.service",
        "/etc/tidemill/run.sh",
        "/etc/tidemill/settings",
        "/etc/tidemill/env",
    }
    unit = file(config, "/etc/systemd/system/tidemill.service")
    for line in ("SuccessAction=poweroff", "FailureAction=poweroff", "ExecStart=/bin/bash /etc/tidemill/run.sh"):
        assert f"\n{line}\n" in unit
    # Nothing may restart it: the script counts, and a machine that cannot work must leave.
    assert "Restart" not in unit
    assert config["runcmd"] == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "start", "--no-block", "tidemill.service"],
    ]


def test_the_workers_variables():
    lines = file(document(gcp={"idle_minutes": 7}), "/etc/tidemill/env").splitlines()
    assert dict(line.split("=", 1) for line in lines) == {
        "TIDEMILL_STORE": "gs://store",
        "TIDEMILL_QUEUE": "cpu",
        "TIDEMILL_REGION": "us-west1",
        "TIDEMILL_SUBSCRIPTION": "projects/p/subscriptions/work",
        "TIDEMILL_LOG": "projects/p/logs/l",
        "TIDEMILL_IDLE_SECONDS": "420",
        "TIDEMILL_SLOTS": "machine",
        "TIDEMILL_SCRATCH": "/scratch",
        "TIDEMILL_CACHE": "/cache",
        "TIDEMILL_MIN_WORKER": "0.1.0",
    }


def test_a_release_changes_the_workers_image_and_nothing_else_of_a_machine():
    other = WORKER.replace("1111", "3333")
    before, after = (json.dumps(document(worker_image=each)) for each in (WORKER, other))
    assert before.replace(WORKER, other) == after


def test_the_script_is_sound():
    done = subprocess.run(["/bin/bash", "-n", str(SCRIPT)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    if checker := shutil.which("shellcheck"):
        done = subprocess.run([checker, "-s", "bash", str(SCRIPT)], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout


def test_an_idle_worker_ends_the_machine(tmp_path: Path):
    machine = Machine(tmp_path, "0")
    assert machine.start().returncode == 0, machine.done.stderr
    assert machine.record is None
    (ran,) = machine.runs
    until = re.search(r" --env TIDEMILL_MACHINE_SINCE=\d+ --env TIDEMILL_MACHINE_UNTIL=\d+ ", ran)
    assert until
    assert ran.replace(until[0], " ") == (
        "docker run --rm --name tidemill --init --network host --log-driver json-file --log-opt max-size=20m "
        "--log-opt max-file=2 --env-file /etc/tidemill/env "
        "--entrypoint /tidemill/tidemill-worker --volume /var/lib/tidemill/scratch:/scratch "
        "--volume /var/lib/tidemill/cache:/cache --volume /var/lib/tidemill/worker:/tidemill:ro "
        f"{IMAGE} start"
    )
    assert machine.calls("docker-credential-gcr") == [
        "docker-credential-gcr configure-docker --registries=us-docker.pkg.dev"
    ]
    assert machine.calls("mount") == [
        "mount --bind /var/lib/tidemill /var/lib/tidemill", "mount -o remount,exec /var/lib/tidemill"
    ]  # fmt: skip
    assert (tmp_path / "var/lib/tidemill/worker/tidemill-worker").exists()
    assert not machine.calls("curl")  # without min_machines it does not ask whether it may leave


def test_an_image_that_brings_the_worker(tmp_path: Path):
    machine = Machine(tmp_path, "0", worker_image=None)
    machine.start()
    (ran,) = machine.runs
    assert ran.endswith(f"{IMAGE} python3 -m tidemill.worker")
    assert "--entrypoint" not in ran
    assert not machine.calls("docker create")
    assert not machine.calls("docker-credential-gcr")


def test_a_reclaimed_machine_just_ends(tmp_path: Path):
    machine = Machine(tmp_path, "70")
    assert machine.start().returncode == 0
    assert (len(machine.runs), machine.record) == (1, None)


def test_a_worker_that_refuses_its_settings_is_not_started_again(tmp_path: Path):
    machine = Machine(tmp_path, "72")
    assert machine.start().returncode == 1
    assert len(machine.runs) == 1
    record = machine.record or {}
    assert record["error"] == ('the worker cannot work with these settings (exit code 72)\na line\nthe "last" \\ line')
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["at"])
    (upload,) = machine.calls(
        "curl -fsS --max-time 60 --retry 5 --retry-connrefused -H Authorization: Bearer t0ken -X POST"
    )
    head = "https://storage.googleapis.com/upload/storage/v1/b/store/o?uploadType=media&name=fleet%2Ferrors%2F"
    assert re.fullmatch(r"\d{8}T\d{6}Z-cpu-spot-x1y2.json", upload.partition(head)[2])


def test_a_worker_that_does_not_start_is_tried_five_times_with_pauses(tmp_path: Path):
    machine = Machine(tmp_path, "71", "1", "137", "71", "1", "0")
    assert machine.start().returncode == 1
    assert len(machine.runs) == 5
    assert machine.calls("sleep") == ["sleep 5", "sleep 10", "sleep 15", "sleep 20"]
    assert (machine.record or {})["error"].startswith(
        "the worker did not start in 5 attempts, exit code 1 the last time\n"
    )


def test_a_start_that_works_in_the_end_leaves_no_record(tmp_path: Path):
    machine = Machine(tmp_path, "71", "137", "71", "1", "0")
    assert machine.start().returncode == 0
    assert (len(machine.runs), machine.record) == (5, None)


def test_a_worker_that_lasted_is_counted_anew(tmp_path: Path):
    """The second and third runs last; bash's own clock is moved instead of waiting for a minute."""
    machine = Machine(tmp_path, *(["1"] * 4), "slow1", *(["1"] * 4), "0")
    script = tmp_path / "etc/tidemill/run.sh"
    moved = f"  code=$?\n  [ ! -e {tmp_path}/later ] || {{ rm {tmp_path}/later; began=$((SECONDS - 60)); }}\n"
    script.write_text(script.read_text().replace("  code=$?\n", moved))
    assert machine.start().returncode == 0
    assert (len(machine.runs), machine.record) == (10, None)


@pytest.mark.parametrize("verb", ["pull", "create"])
def test_a_machine_whose_image_cannot_be_pulled(tmp_path: Path, verb: str):
    """A black-hole machine: it takes no work, reports why, and takes itself out of service."""
    machine = Machine(tmp_path)
    machine.write(f"{verb}.code", "125")
    assert machine.start().returncode == 1
    assert machine.runs == []
    assert len(machine.calls(f"docker {verb}")) == 5
    assert (machine.record or {})["error"].startswith("the worker did not start in 5 attempts")


def test_what_is_prepared_is_prepared_once(tmp_path: Path):
    machine = Machine(tmp_path, "1", "1", "0")
    machine.start()
    for call in ("docker create", "docker cp", "mount --bind", "docker-credential-gcr"):
        assert len(machine.calls(call)) == 1, call
    assert len(machine.calls("docker pull")) == 2  # the worker's image and the queue's


def test_a_copy_of_the_worker_that_breaks_off_is_never_taken_for_the_worker(tmp_path: Path):
    machine = Machine(tmp_path, "0")
    docker = (tmp_path / "bin/docker").read_text()
    (tmp_path / "bin/docker").write_text(
        docker.replace("cp) touch", "cp) [ -e broke ] || { touch broke; exit 1; }; touch")
    )
    assert machine.start().returncode == 0
    assert len(machine.calls("docker cp")) == 2
    assert len(machine.runs) == 1


def test_secrets_reach_the_container_and_nothing_else(tmp_path: Path):
    machine = Machine(
        tmp_path, "0", secrets={"HF_TOKEN": "projects/p/secrets/hf", "HF_KEY": "projects/p/secrets/k/versions/3"}
    )
    payload = {"name": "n", "payload": {"data": "c2VjcmV0CmxpbmUy", "dataCrc32c": "1"}}  # secret, newline, line2
    machine.write("secret", json.dumps(payload, indent=2))
    machine.start()
    assert " --env HF_KEY --env HF_TOKEN " in machine.runs[0]
    seen = (tmp_path / "seen").read_text()
    assert "HF_TOKEN=secret\n" in seen
    assert "HF_KEY=secret\n" in seen
    asked = [line.split()[-1] for line in machine.calls("curl") if line.endswith(":access")]
    assert asked == [
        "https://secretmanager.googleapis.com/v1/projects/p/secrets/k/versions/3:access",
        "https://secretmanager.googleapis.com/v1/projects/p/secrets/hf/versions/latest:access",
    ]
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in ("seen", "secret")]
    assert [path.name for path in written if "secret\n" in path.read_text() or "line2" in path.read_text()] == []


def test_a_secrets_name_changes_nothing_of_the_script(tmp_path: Path):
    names = ("BUCKET", "CALL", "COMMAND", "IMAGE", "OPTIONS", "STEPS", "QUEUE", "RUN", "STATE", "UNTIL", "each")
    machine = Machine(tmp_path, "0", secrets=dict.fromkeys(names, "projects/p/secrets/s"))
    machine.write("secret", json.dumps({"payload": {"data": "c2VjcmV0"}}))
    assert machine.start().returncode == 0, machine.done.stderr
    assert machine.runs[0].endswith(f" {IMAGE} start")
    assert "secret" not in machine.runs[0]
    assert {f"{name}=secret" for name in names} <= set((tmp_path / "seen").read_text().splitlines())


def test_a_secret_that_cannot_be_read_is_a_start_that_failed(tmp_path: Path):
    machine = Machine(tmp_path, "0", secrets={"HF_TOKEN": "projects/p/secrets/hf"})
    assert machine.start().returncode == 1
    assert machine.runs == []
    assert machine.record


def test_a_machine_that_is_named_stays_without_work(tmp_path: Path):
    machine = Machine(tmp_path, "0", "0", "0", gcp={"min_machines": 2})
    machine.write("warm", "cpu-spot-a\ncpu-spot-x1y2\n")
    docker = (tmp_path / "bin/docker").read_text()
    lasted = tmp_path / "etc/tidemill/run.sh"
    lasted.write_text(lasted.read_text().replace("LASTING=60", "LASTING=0"))
    # After the third run it is no longer named.
    (tmp_path / "bin/docker").write_text(
        docker.replace(
            "    code=$(sed", "    [ -s codes ] && [ $(wc -l <codes) -gt 1 ] || echo other >warm\n    code=$(sed"
        )
    )
    assert machine.start().returncode == 0
    assert (len(machine.runs), machine.record) == (3, None)


def test_a_named_machine_whose_worker_ends_at_once_leaves(tmp_path: Path):
    """It is near its maximum age, and its worker leases nothing more: another start would do the same."""
    machine = Machine(tmp_path, "0", "0", gcp={"min_machines": 2})
    machine.write("warm", "cpu-spot-x1y2\n")
    assert machine.start().returncode == 0
    assert (len(machine.runs), machine.record) == (1, None)


def test_workers_that_items_killed_are_no_failed_starts(tmp_path: Path):
    machine = Machine(tmp_path, *["137"] * 9, "0")
    docker = (tmp_path / "bin/docker").read_text()
    said = """    echo '{"level":"info","job":"j-1","lease":"a1-x","message":"chunk leased"}'\n"""
    (tmp_path / "bin/docker").write_text(docker.replace("    code=$(sed", f"{said}    code=$(sed"))
    assert machine.start().returncode == 0
    assert (len(machine.runs), machine.record) == (10, None)


def test_a_named_machine_leaves_at_its_age(tmp_path: Path):
    machine = Machine(tmp_path, "0", "0", gcp={"min_machines": 2})
    machine.write("warm", "cpu-spot-x1y2\n")
    settings = tmp_path / "etc/tidemill/settings"
    settings.write_text(settings.read_text() + "AGE_SECONDS=-1\n")
    assert machine.start().returncode == 0
    assert len(machine.runs) == 1


@pytest.mark.parametrize("names", [None, "", "cpu-spot-x1y\ncpu-spot-x1y22\n"])
def test_a_machine_that_is_not_named_or_cannot_ask_leaves(tmp_path: Path, names: str | None):
    machine = Machine(tmp_path, "0", "0", gcp={"min_machines": 2})
    if names is not None:
        machine.write("warm", names)
    assert machine.start().returncode == 0
    assert len(machine.runs) == 1


def test_mounts(tmp_path: Path):
    mounts = {
        "disk": {"host": "/mnt/disks/extra", "path": "/data"},
        "refs": {"gcs": "gs://refs/hg38/", "path": "/refs", "read_only": True},
        "raw": {"gcs": "gs://raw", "path": "/raw"},
        "shared": {"filestore": "10.0.0.2:/vol", "path": "/shared", "read_only": True},
    }
    machine = Machine(tmp_path, "0", mounts=mounts, gcp={"fuse_image": FUSE, "extra_disk_gib": 100})
    assert machine.start().returncode == 0, machine.record
    fuse = machine.calls("docker run --detach")
    head = "docker run --detach --restart always --name tidemill-gcs-{0} --privileged --network host"
    head += f" --volume /mnt/disks/gcs:/mnt/disks/gcs:rshared --entrypoint gcsfuse {FUSE} --foreground "
    assert fuse == [
        head.format("raw") + "-o allow_other raw /mnt/disks/gcs/raw",
        head.format("refs") + "--only-dir hg38/ -o allow_other,ro refs /mnt/disks/gcs/refs",
    ]
    assert machine.calls("mountpoint") == ["mountpoint -q /mnt/disks/gcs/raw", "mountpoint -q /mnt/disks/gcs/refs"]
    assert machine.calls("mkfs") == ["mkfs.ext4 -q -F /dev/disk/by-id/google-extra"]
    assert "mount /dev/disk/by-id/google-extra /mnt/disks/extra" in machine.calls("mount ")
    (ran,) = machine.runs
    for part in (
        "--mount type=volume,source=tidemill-shared,target=/shared,readonly,volume-driver=local,",
        ',volume-opt=type=nfs,volume-opt=device=:/vol,"volume-opt=o=addr=10.0.0.2,nfsvers=3,nolock,ro" ',
        "--volume /mnt/disks/extra:/data ",
        "--volume /mnt/disks/gcs/refs:/refs:ro ",
        "--volume /mnt/disks/gcs/raw:/raw ",
    ):
        assert part in ran


def test_a_bucket_that_cannot_be_mounted_is_a_start_that_failed(tmp_path: Path):
    mounts = {"raw": {"gcs": "gs://raw", "path": "/raw", "read_only": True}}
    machine = Machine(tmp_path, mounts=mounts, gcp={"fuse_image": FUSE})
    machine.tool("mountpoint", "exit 1\n")
    assert machine.start().returncode == 1
    assert machine.runs == []
    assert "bucket raw could not be mounted" in (machine.record or {})["error"]


def test_gpus(tmp_path: Path):
    machine = Machine(
        tmp_path, "0", item={"cpus": 2, "memory_mib": 4096, "gpus": 1}, machines={"families": ["g2"], "cpus": 24}
    )
    machine.start()
    assert machine.calls("cos-extensions") == ["cos-extensions install gpu"]
    assert "mount -o remount,exec /var/lib/nvidia" in machine.calls("mount")
    for part in (
        "--volume /var/lib/nvidia/lib64:/usr/local/nvidia/lib64",
        "--device /dev/nvidia0:/dev/nvidia0",
        "--device /dev/nvidia1:/dev/nvidia1 ",
        "--device /dev/nvidiactl:/dev/nvidiactl",
    ):
        assert part in machine.runs[0]
    assert "/dev/nvidia2" not in machine.runs[0]


def test_limits_and_shared_memory(tmp_path: Path):
    machine = Machine(tmp_path, "0", ulimits={"nofile": 65536}, shared_memory_mib=512)
    machine.start()
    assert "--shm-size 512m --ulimit nofile=65536:65536 " in machine.runs[0]


@pytest.mark.parametrize(
    ("image", "google"),
    [
        ("us-west1-docker.pkg.dev/p/r/i@sha256:1", True),
        ("eu.gcr.io/p/i:1", True),
        ("gcr.io/p/i:1", True),
        ("docker.io/team/gcr.io:1", False),
        ("quay.io/x/y", False),
    ],
)
def test_which_registries_a_machine_logs_in_to(image: str, google: bool):
    assert cloud_init.is_google(image) is google


def test_values_of_a_stack_file_stay_values(tmp_path: Path):
    """Whatever a name contains, the shell sees one word."""
    machine = Machine(tmp_path, "0", image="docker.io/x/$(touch pwned)`touch pwned`'\"@sha256:1")
    assert machine.start().stderr == ""
    assert not list(tmp_path.rglob("pwned"))
    assert machine.runs[0].endswith("docker.io/x/$(touch pwned)`touch pwned`'\"@sha256:1 start")
