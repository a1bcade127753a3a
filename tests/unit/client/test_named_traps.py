"""Traps that others fell into, as far as the client alone can fall into them: one test each, named after its report.
This does not show that the cloud behaves like the queue in memory; docs/cloud-facts.md lists the known facts."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.mutants import jobs
from tests.unit.client_fakes import FakeBackend, pipeline, uris
from tests.unit.every_cloud import GcpWorld
from tidemill.cli import main
from tidemill.client.plan.spec import build_spec
from tidemill.client.rounds import deliveries
from tidemill.errors import CallerError
from tidemill.explain.judge import LASTING_SECONDS
from tidemill.layout import FLEET_REPORT
from tidemill.worker.settings import Settings

COMMAND = ["python3", "features.py", "{input}", "{output}"]


@pytest.fixture(autouse=True)
def grown_up(monkeypatch):
    """Rounds count as long enqueued at once."""
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


def submitted(items: int = 4):
    target, backend = pipeline()
    return target, backend, target.submit(COMMAND, uris(items), queue="cpu", name="tiles", chunk_size=1)


def waits_with(backend: FakeBackend, reason: str, monkeypatch) -> None:
    """The queue gives a reason for what waits."""
    plain = backend._state
    monkeypatch.setattr(backend, "_state", lambda fake: replace(plain(fake), reason=reason))


def no_sleep(patch_time, do=lambda: None) -> list[float]:
    """Between two looks of `wait` something happens."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) < 100, "it waits for ever"
        do()

    patch_time(sleep=sleep)
    return slept


def test_skypilot_9800_workers_that_die_before_their_first_chunk_are_shown(patch_time):
    target, backend, job = submitted()

    def every_container_dies() -> None:
        for array in backend.arrays:
            array.children = ["failed"] * len(array.children)
            array.reasons = dict.fromkeys(
                range(len(array.children)), "Essential container in task exited: exit code 127"
            )

    every_container_dies()
    status = job.status()
    assert (status.state, status.chunks.lost, status.exit_code) == ("lost", [0, 1, 2, 3], 1)
    assert "exit code 127" in (status.note or "")
    no_sleep(patch_time, every_container_dies)
    status = job.wait()
    assert (status.state, status.remaining) == ("lost", 4)
    assert "exit code 127" in (status.note or "")
    assert list(target.store.list(f"jobs/{job.id}/r0/attempts")) == []


def test_nextflow_7479_a_transient_misconfiguration_kills_nothing(patch_time, monkeypatch):
    target, backend, job = submitted()
    reason = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - the compute environments cannot meet the job's requirements"
    with monkeypatch.context() as scaling_from_zero:
        waits_with(backend, reason, scaling_from_zero)
        status = job.status()
        # A healthy queue gives it while machines come; it is told once it lasts.
        assert (status.state, status.chunks.lost, status.note) == ("waiting", [], None)
        scaling_from_zero.setattr(backend, "now", lambda: time.time() + LASTING_SECONDS)
        assert job.status().note == reason
    no_sleep(patch_time, lambda: backend.run(target, job.id))
    assert job.wait().succeeded == 4
    assert not any(array.terminated for array in backend.arrays)
    assert len(backend.arrays) == 1


def test_nextflow_7302_a_job_that_batch_has_forgotten_does_not_hang_its_poller(patch_time):
    target, backend, job = submitted()
    seen = []

    def forget() -> None:
        seen.append(len(backend.arrays))
        if len(seen) == 1:
            backend.run(target, job.id, skip_chunks=[2])
            backend.arrays.clear()
        else:
            backend.run(target, job.id)

    no_sleep(patch_time, forget)
    status = job.wait()
    assert (status.state, status.succeeded, status.rounds) == ("succeeded", 4, 2)
    backend.arrays.clear()
    assert job.status().state == "succeeded"


@pytest.mark.parametrize(
    "reason",
    [
        "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - the service cannot fulfill the capacity requested",
        "VcpuLimitExceeded - you have requested more vCPU capacity than your current vCPU limit",
    ],
)
def test_dsub_303_what_waits_for_a_quota_says_so(monkeypatch, reason):
    _, backend, job = submitted()
    waits_with(backend, reason, monkeypatch)
    status = job.status()
    assert (status.state, status.note) == ("waiting", reason)


@pytest.mark.parametrize("trouble", ["QUOTA_EXCEEDED: CPUS in europe-west1", None])
def test_dsub_303_on_gcp_a_wait_says_what_keeps_machines_from_coming(tmp_path, monkeypatch, trouble):
    world = GcpWorld(tmp_path, monkeypatch)
    job = world.pipeline.submit(COMMAND, uris(2), queue="cpu", name="tiles", chunk_size=1)
    group = {"target": 4, "running": 0, "stockout": trouble is None, "errors": [trouble] if trouble else []}
    at = datetime.now(UTC).isoformat()
    report = {"at": at, "period_seconds": 120, "queues": {"cpu": {"backlog": 2, "groups": {"spot": group}}}}
    world.pipeline.store.put(FLEET_REPORT, json.dumps(report).encode())
    said = []

    def look(status):
        said.append(status.note)
        world.work(job.id)

    assert job.wait(poll_seconds=0.01, on_status=look).state == "succeeded"
    assert said[0] == f"queue cpu, spot machines: {trouble or 'out of stock'} (0 of 4 run)"


@pytest.mark.parametrize("key", ["attempts", "timeout_seconds", "slots", "chunk_size", "items_total", "chunks_total"])
def test_buildkite_1000_zero_in_a_spec_is_refused(key):
    whole = {"name": "t", "queue": "q", "command": ["p"], "chunk_size": 1, "items_total": 1, "chunks_total": 1}
    with pytest.raises(CallerError, match=key):
        build_spec(**{**whole, key: 0})


@pytest.mark.parametrize("key", ["TIDEMILL_RECLAIM_POLL_SECONDS", "TIDEMILL_DRAIN_SECONDS"])
def test_buildkite_1000_zero_in_a_workers_settings_is_refused(key):
    with pytest.raises(CallerError, match=key):
        Settings.read({"TIDEMILL_STORE": "memory://", key: "0"})


@pytest.mark.parametrize(
    "option", ["--attempts", "--timeout", "--chunk-size", "--workers", "--memory", "--reclaim-every"]
)
def test_buildkite_1000_zero_on_the_command_line_is_refused(tmp_path, capsys, option):
    assert main(["run", "--store", str(tmp_path / "store"), option, "0", "a", "--", "true", "{uri}"]) == 2
    said = capsys.readouterr().err
    assert "0" in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("store/jobs/*/job.json"))


def lost_in_the_end(patch_time) -> list[int]:
    """Chunks that are lost when `wait` ends, of a job whose queue drops one."""
    target, backend, job = submitted()
    backend.run(target, job.id, skip_chunks=[1])
    no_sleep(patch_time, lambda: backend.run(target, job.id))
    return job.wait().chunks.lost


def test_a_wait_loses_no_delivery(patch_time):
    assert lost_in_the_end(patch_time) == []


def test_without_self_repair_a_wait_shows_lost_deliveries(patch_time, monkeypatch):
    jobs.self_repair_off(monkeypatch)
    assert lost_in_the_end(patch_time) == [1]
