"""On GCP, a frozen machine, an image that cannot be pulled and a dry Spot market do not block a job.

The tests share a team whose queue has two rungs. See test_gcp_machines_are_taken_away.py for what is not shown here;
it has its own team, so that both run at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import GcpCloud
from localcloud.processes import descendants
from tests.e2e.changed_list import check_a_list_that_grew
from tests.e2e.gcp import SPOT_OFF_SECONDS, TIME_FACTOR, GcpTeam, change, gcp_team_up
from tests.e2e.team import await_that
from tests.gate import Gate
from worker_image.oci import Layout
from worker_image.tools import architecture, crane

AUTOSCALERS = "compute/v1/projects/{project}/regions/us-central1/autoscalers"
RUNGS = [{"market": "spot", "max_cpus": 8}, {"market": "on_demand", "max_cpus": 8}]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpTeam]:
    """A team whose pipeline is up."""
    state = tmp_path_factory.mktemp("localcloud")
    with GcpCloud(state, time_factor=TIME_FACTOR, spot_off_seconds=SPOT_OFF_SECONDS) as cloud:
        yield gcp_team_up(cloud, tmp_path_factory.mktemp("demo-gcp"), {"capacity": RUNGS})


def test_one_item_more_runs_one_item(team: GcpTeam, tmp_path: Path) -> None:
    items, _ = team.put_items("grew", 4, tmp_path)
    check_a_list_that_grew(team, items, tmp_path)


def test_a_frozen_machine_is_removed_and_its_work_runs_elsewhere(team: GcpTeam, tmp_path: Path, held: Gate) -> None:
    await_that(team.at_rest, "no machine is there or wanted")
    items, _ = team.put_items("frozen", 2, tmp_path)
    job = team.submit("frozen", items, "sh", "-c", f"{held.wait}; : > $TIDEMILL_OUTPUT/x", chunk_size=2)
    name = team.busy_machine()
    bucket = team.project.descriptor()["store"].removeprefix("gs://")
    alive = f"storage/v1/b/{bucket}/o?prefix=fleet/alive/{name}"
    await_that(lambda: team.google.call("storage", "GET", alive).get("items"), "it has said that it is alive")
    (vm,) = [each for each in team.machines()["instances"] if each["name"] == name]
    for pid in [each for container in vm["containers"].values() for each in [container, *descendants(container)]]:
        os.kill(pid, signal.SIGSTOP)
    held.open()
    team.tidemill("wait", job)
    assert team.status(job)["succeeded"] == 2
    # It does not answer, so it is cut off when its time to stop is over, while its work is done elsewhere.
    await_that(lambda: name not in {each["name"] for each in team.machines()["instances"]}, "it is gone")


def test_a_machine_whose_image_cannot_be_pulled_says_so_and_goes(team: GcpTeam, tmp_path: Path) -> None:
    """A submit refuses an image that is not there, so this one is deleted after the submit."""
    await_that(team.at_rest, "no machine is there or wanted")
    good = team.project.descriptor()["queues"]["cpu"]["images"]["default"]["ref"]
    host, _, repository = team.project.outputs()["registry_url"].partition("/")
    pushed = push_an_image(team, tmp_path, f"{repository}/short-lived")
    change(team.project, {"images": {"default": pushed.replace(pushed.partition("/")[0], host)}})
    try:
        team.cloud.control("compute/stockout", limit=0)
        items, _ = team.put_items("deleted", 2, tmp_path)
        job = team.submit("deleted", items, "true")
        subprocess.run([str(crane()), "delete", "--insecure", pushed], check=True, timeout=60, capture_output=True)
        team.cloud.control("compute/stockout", limit=None)
        errors = await_that(lambda: team.look(job, fleet=True).fleet_errors, "a machine tells what went wrong")
        assert "manifest unknown" in str(errors)
        team.tidemill("cancel", job)
        # No worker starts, so only the reconciler can drop the cancelled chunk. Until then each machine that powers
        # off is followed by another.
        await_that(team.at_rest, "the chunk is dropped and the machines are gone")
    finally:
        change(team.project, {"images": {"default": good}})


def push_an_image(team: GcpTeam, folder: Path, repository: str) -> str:
    """Push an image without content to localcloud's registry, and return its reference there, by digest."""
    layout = Layout(folder / "layout")
    (folder / "empty").touch()
    digest = layout.write({"empty": folder / "empty"}, architecture(), {})
    reference = f"{team.cloud.control('compute/registry')['address']}/{repository}"
    push = [str(crane()), "push", "--insecure", str(layout.folder), f"{reference}:v1"]
    subprocess.run(push, check=True, timeout=60, capture_output=True)
    return f"{reference}@{digest}"


def test_on_a_dry_market_a_job_ends_in_time_without_any_client(team: GcpTeam, tmp_path: Path) -> None:
    await_that(team.at_rest, "no machine is there or wanted")
    team.cloud.control("compute/stockout", limit=0)
    items, _ = team.put_items("late", 4, tmp_path)
    job = team.submit("late", items, "true", start_within="60s")
    await_that(lambda: any(team.machines()["targets"].values()), "machines are wanted for it")
    bucket = team.project.descriptor()["store"].removeprefix("gs://")
    tombstone = f"storage/v1/b/{bucket}/o?prefix=jobs/{job}/cancelled"
    await_that(lambda: team.google.call("storage", "GET", tombstone).get("items"), "the reconciler ends it")
    # Its messages are dropped too.
    await_that(team.at_rest, "no machine is there or wanted")
    team.cloud.control("compute/stockout", limit=None)
    status = team.status(job)
    assert (status["state"], status["rounds"]) == ("cancelled", 1)
    assert "no machine has begun with it within 60 s" in status["note"]


def test_a_dry_spot_market_opens_the_second_rung_and_up_leaves_it_alone(team: GcpTeam, tmp_path: Path) -> None:
    await_that(team.at_rest, "no machine is there or wanted")
    assert mode_of_the_rung(team) == "OFF"
    team.cloud.control("compute/stockout", limit=1, market="spot")
    items, _ = team.put_items("dry", 100, tmp_path)
    job = team.submit("dry", items, "sh", "-c", 'sleep 2; : > "$TIDEMILL_OUTPUT/x"', chunk_size=2)

    def at_work() -> set[str]:
        found = team.machines()["instances"]
        return {vm["name"] for vm in found if not vm["spot"] and vm["containers"]}

    working = await_that(at_work, "a machine of the second rung works")
    # Without the reconciler closing the rung or removing stopped machines, only `up` could touch it.
    team.cloud.control("scheduler/pause", paused=True)
    assert team.project.up("--expect-no-changes").ok().plan == []
    change(team.project, {"scratch_gib": 30})  # a new template, for future machines
    assert working <= {vm["name"] for vm in team.machines()["instances"]}
    assert mode_of_the_rung(team) == "ONLY_SCALE_OUT"
    team.cloud.control("scheduler/pause", paused=False)
    team.tidemill("wait", job)
    outcomes = team.results(job)
    assert sorted(outcome["index"] for outcome in outcomes) == list(range(100))
    assert {(outcome["status"], outcome["attempts"]) for outcome in outcomes} == {("succeeded", 1)}
    assert team.status(job)["reclaims"] == 0
    await_that(team.at_rest, "no machine is there or wanted")
    await_that(lambda: mode_of_the_rung(team) == "OFF", "the rung is closed")


def mode_of_the_rung(team: GcpTeam) -> str:
    """Whether the autoscaler of the On-Demand group adds machines."""
    found = team.google.call("compute", "GET", AUTOSCALERS)["items"]
    return next(each for each in found if "on-demand" in each["name"])["autoscalingPolicy"]["mode"]
