"""Slots from a container's resources. The files here follow the kernel's documentation; no container is
made."""

import pytest

from tidemill.descriptor import Resources
from tidemill.machine import Capacity

MEMINFO = "MemTotal:       8388608 kB\nMemFree: 1 kB\n"


def machine(root, files):
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cpus", "memory"),
    [
        ({}, 16, 8192),
        ({"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"}, 16, 8192),
        ({"sys/fs/cgroup/cpu.max": "150000 100000\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, 1.5, 1024),
        ({"sys/fs/cgroup/cpu.max": "9900000 100000\n"}, 16, 8192),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "2147483648\n",
            },
            4,
            2048,
        ),
        (
            {
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            16,
            8192,
        ),
    ],
    ids=["no cgroup", "v2 without limits", "v2", "v2 above the machine", "v1", "v1 without limits"],
)
def test_what_a_container_has(tmp_path, monkeypatch, files, cpus, memory):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    found = Capacity.read(machine(tmp_path, files), {})
    assert (found.cpus, found.memory_mib, found.gpus) == (cpus, memory, ())


@pytest.mark.parametrize(
    ("env", "gpus"),
    [
        ({}, ("0", "1", "10")),
        ({"CUDA_VISIBLE_DEVICES": "2,GPU-ab"}, ("2", "GPU-ab")),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, ()),
    ],
)
def test_gpus(tmp_path, env, gpus):
    files = {"dev/nvidia0": "", "dev/nvidia1": "", "dev/nvidia10": "", "dev/nvidiactl": ""}
    assert Capacity.read(machine(tmp_path, files), env).gpus == gpus


@pytest.mark.parametrize(
    ("capacity", "item", "slots"),
    [
        (Capacity(8, 16384), {"cpus": 1, "memory_mib": 1024}, 8),
        (Capacity(8, 16384), {"cpus": 1, "memory_mib": 4096}, 3),
        (Capacity(1.999, 16384), {"cpus": 1, "memory_mib": 1024}, 2),
        (Capacity(8, 16384), {"cpus": 0.5, "memory_mib": 64}, 16),
        (Capacity(2, 512), {"cpus": 4, "memory_mib": 4096}, 1),
        (Capacity(16, 65536, ("0", "1")), {"cpus": 1, "memory_mib": 64, "gpus": 1}, 2),
    ],
)
def test_slots(capacity, item, slots):
    assert capacity.slots(Resources(**item), 96) == slots
