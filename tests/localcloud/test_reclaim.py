"""Machines that a reclaim by hand takes, from the answers of both clouds' controls. tests/e2e takes one by a job's
name on both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from localcloud.cloud import Cloud, CloudError, GcpCloud
from localcloud.reclaim import reclaim

JOB = "tiles-0123abcd"


def answering(cloud: Cloud | GcpCloud, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> list[tuple[str, str]]:
    """Let the controls of a cloud answer; returns the machines that get a notice, as they do."""
    taken: list[tuple[str, str]] = []

    def control(path: str, **body: Any) -> Any:
        name = path.partition("/")[2]
        if name not in answers:
            taken.append((path, body["instance"]))
        return answers.get(name)

    monkeypatch.setattr(cloud, "control", control)
    return taken


def batch_machine(name: str, children: list[str], market: str = "spot", *, doomed: bool = False) -> dict[str, Any]:
    return {"instance": name, "market": market, "doomed": doomed, "children": children}


def test_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = Cloud(tmp_path)
    names = {"a": f"{JOB}-r0-a0", "b": f"{JOB}-r0-a0", "c": "tiles-maps-0123abcd-r0-a0"}
    machines = [
        batch_machine("idle", []),
        batch_machine("busy", ["a", "b"]),
        batch_machine("other", ["c"]),
        batch_machine("kept", ["a"], "on_demand"),
        batch_machine("going", ["a"], doomed=True),
    ]
    children = [{"id": key, "name": name} for key, name in names.items()]
    taken = answering(cloud, monkeypatch, machines={"machines": machines}, children={"children": children})
    assert reclaim(cloud, count=9) == ["busy", "other", "idle"]
    assert taken == [("batch/reclaim", name) for name in ("busy", "other", "idle")]
    assert reclaim(cloud) == ["busy"]
    # A name is not the beginning of another one.
    assert reclaim(cloud, JOB, 9) == reclaim(cloud, "tiles", 9) == ["busy"]
    with pytest.raises(CloudError, match="No Spot machine without a notice works on til"):
        reclaim(cloud, "til")


def test_compute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = GcpCloud(tmp_path)
    jobs = {key: [JOB, "a-0123abcd"] for key in ("busy", "kept", "off", "going")} | {"other": ["tiles-maps-0123abcd"]}
    machine = {"spot": True, "status": "RUNNING", "preempted": False, "containers": {}}
    instances = [
        machine | {"name": "idle"},
        machine | {"name": "busy", "containers": {"tidemill": 1}},
        machine | {"name": "other", "containers": {"tidemill": 2}},
        machine | {"name": "kept", "spot": False},
        machine | {"name": "off", "status": "TERMINATED"},
        machine | {"name": "going", "preempted": True},
    ]
    taken = answering(cloud, monkeypatch, list={"instances": instances}, jobs={"nodes": jobs})
    assert reclaim(cloud, count=9) == ["busy", "other", "idle"]
    assert taken == [("compute/preempt", name) for name in ("busy", "other", "idle")]
    assert reclaim(cloud, JOB, 9) == reclaim(cloud, "tiles", 9) == ["busy"]
    with pytest.raises(CloudError, match="No Spot machine without a notice works on til"):
        reclaim(cloud, "til")
