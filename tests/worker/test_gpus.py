"""GPUs that items were given, with an `nvidia-smi` that says what a test wants. Not proved here: what a driver says,
and that a container's nvidia-smi sees the container's GPUs only."""

import subprocess
import sys

import pytest

from tests.worker.containers import ran, until
from tidemill.worker.machine import gpus
from tidemill.worker.machine.gpus import GpuWatch, Window, _parse

SMI = """#!/bin/sh
case "$*" in *--query-gpu=index,uuid,memory.used,utilization.gpu*) ;; *) exit 2 ;; esac
echo "$LD_LIBRARY_PATH" >> {asked}
n=$(wc -l < {asked})
echo "0, GPU-aa11, $n, 40"
echo "1, GPU-bb22, 9000, [N/A]"
"""
WORKER = """
import sys
from tidemill.worker.machine import gpus
# As on a machine with a GPU, and a look every few milliseconds.
gpus.GpuWatch.find = classmethod(lambda cls, run: cls(run, 0.02))
from tidemill.worker.__main__ import main
sys.exit(main())
"""
MODULE = """
import time

def looked_at(uri):
    seen = len(open({asked!r}).readlines())
    while len(open({asked!r}).readlines()) < seen + 4:
        time.sleep(0.01)
"""


@pytest.fixture
def asked(team):
    """A file with a line for every call of nvidia-smi."""
    folder = team.root / "bin"
    folder.mkdir(parents=True)
    found = team.root / "asked"
    found.touch()
    (folder / "nvidia-smi").write_text(SMI.format(asked=found))
    (folder / "nvidia-smi").chmod(0o755)
    (team.root / "module.py").write_text(MODULE.format(asked=str(found)))
    return found


def run(job, **extra):
    env = job.environment(**extra)
    env["PATH"] = f"{job.team.root}/bin:{env['PATH']}"
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER],
        env=env,
        cwd=job.team.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    job.team.workers.append(worker)
    return ran(worker)


def looked_at(asked):
    return ["sh", "-c", f"seen=$(wc -l < {asked}); until [ $(wc -l < {asked}) -ge $((seen + 4)) ]; do sleep 0.01; done"]


@pytest.mark.parametrize("function", [False, True])
def test_an_item_s_gpu_is_recorded(team, asked, function):
    named = {"function": "module:looked_at"} if function else {}
    job = team.job(["a", "b"], None if function else looked_at(asked), resources={"gpus": 1}, **named)
    assert run(job, CUDA_VISIBLE_DEVICES="0", LD_LIBRARY_PATH="the-image-s-own").code == 0
    first, second = job.outcomes()
    assert (first.gpu_percent, second.gpu_percent) == (40.0, 40.0)
    # Memory of the second item's samples, which came later: the peaks are each item's own.
    assert 0 < first.peak_gpu_memory_mib < second.peak_gpu_memory_mib < 9000
    assert set(asked.read_text().split()) == {"the-image-s-own"}


def test_all_of_a_container_s_gpus_are_its_item_s(team, asked):
    job = team.job(["a"], looked_at(asked), resources={"gpus": 2})
    run(job)
    (outcome,) = job.outcomes()
    assert outcome.peak_gpu_memory_mib > 9000
    assert outcome.gpu_percent == 40.0


def test_an_item_without_a_gpu_starts_no_nvidia_smi(team, asked):
    job = team.job(["a"], ["sleep", "0.2"])
    run(job)
    (outcome,) = job.outcomes()
    assert (outcome.peak_gpu_memory_mib, outcome.gpu_percent) == (None, None)
    assert asked.read_text() == ""


def test_an_image_without_nvidia_smi_loses_nothing_but_the_figures(team, asked):
    (team.root / "bin" / "nvidia-smi").unlink()
    job = team.job(["a", "b"], ["sleep", "0.3"], resources={"gpus": 1})
    assert run(job).code == 0
    assert [(o.status, o.gpu_percent) for o in job.outcomes()] == [("succeeded", None)] * 2


def test_a_driver_that_does_not_answer_is_asked_no_more(tmp_path, monkeypatch):
    said, calls = [], []
    monkeypatch.setattr(gpus, "log", lambda *words: said.append(words))

    def fail(command, env, seconds):
        calls.append(command)
        raise subprocess.TimeoutExpired(command, seconds)

    program(tmp_path)
    watch = GpuWatch(fail, 0.01)
    window = watch.open({"PATH": str(tmp_path)}, True)
    until(lambda: said, "its complaint")
    assert (len(calls), len(said)) == (gpus.FAILURES, 1)
    assert watch.close(window) is None
    assert watch.open({"PATH": str(tmp_path)}, True) is None

    watch = GpuWatch(fail, 0.01)
    watch.open({"PATH": str(tmp_path / "nowhere")}, True)
    until(lambda: len(said) == 2, "its complaint")
    assert "driver capability: utility" in said[1][0]
    assert len(calls) == gpus.FAILURES


def program(folder):
    """A working nvidia-smi."""
    path = folder / "nvidia-smi"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def test_it_is_looked_for_where_there_is_a_device(tmp_path):
    (tmp_path / "dev").mkdir()
    assert GpuWatch.find(lambda *_: "", tmp_path) is None
    (tmp_path / "dev" / "nvidiactl").touch()
    assert GpuWatch.find(lambda *_: "", tmp_path) is None
    (tmp_path / "dev" / "nvidia0").touch()
    assert GpuWatch.find(lambda *_: "", tmp_path) is not None


def test_one_sampler_serves_every_slot(tmp_path):
    calls = []

    def answer(command, env, seconds):
        calls.append(command)
        return "0, GPU-a, 10, 5\n1, GPU-b, 20, 15\n"

    program(tmp_path)
    watch = GpuWatch(answer, 0.01)
    windows = [watch.open({"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": name}, True) for name in ("0", "GPU-b", "")]
    assert windows[2] is None, "an item that was given none"
    before = len(calls)
    until(lambda: len(calls) >= before + 3, "three samples")
    assert [watch.close(window) for window in windows] == [(10.0, 5.0), (20.0, 15.0), None]
    before = len(calls)
    late = watch.open({"PATH": str(tmp_path)}, True)
    until(lambda: len(calls) >= before + 3, "samples after a pause")
    assert watch.close(late) == (30.0, 10.0)


def test_what_a_driver_does_not_tell_is_unknown():
    window = Window(["MIG-1"])
    window.add(_parse("0, GPU-a, 10, [N/A]\n"))
    assert window.use == (10.0, None)
    assert Window([]).use is None
