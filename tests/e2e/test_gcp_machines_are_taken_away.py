"""A job on GCP loses nothing when machines are reclaimed, killed or never start, and the fleet returns to zero.

The machines are namespaces of this one that run the rendered cloud-init; the group, its autoscaler and the late metric
behave as docs/cloud-facts.md says. How often a real cloud does these things is not shown here. The tests share a team
and run in this order.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError

import pytest

from localcloud.cloud import GcpCloud
from localcloud.reclaim import compute_machines
from tests.e2e.gcp import SPOT_OFF_SECONDS, TIME_FACTOR, GcpTeam, gcp_team_up
from tests.e2e.team import advice, await_that
from tests.gate import Gate
from tidemill import layout

ITEMS, CHUNK_SIZE = 500, 2
"""250 messages, of which 12 come twice on average. Items sleep, so that the others are still at work when what a killed
worker held comes back: a paused reconciler starts no machine for it."""
WANTED, TO_BE_HAD = 12, 6
"""Machines. Each that is wanted starts sooner or later, and to start one takes a second of CPU time."""
HASH = ("sh", "-c", 'sha256sum < "$1" > "$2/sum"; sleep 1.2', "sh", "{input}", "{output}")


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpTeam]:
    """A team whose pipeline is up: a queue of 12 machines."""
    state = tmp_path_factory.mktemp("localcloud")
    with GcpCloud(state, time_factor=TIME_FACTOR, spot_off_seconds=SPOT_OFF_SECONDS) as cloud:
        queue = {"capacity": [{"market": "spot", "max_cpus": 2 * WANTED}]}
        yield gcp_team_up(cloud, tmp_path_factory.mktemp("demo-gcp"), queue)


def told(team: GcpTeam, job: str, words: str) -> bool:
    """Whether a job's status says these words about its machines."""
    return any(words in error for error in team.look(job, fleet=True).fleet_errors)


def test_500_items_with_everything_that_goes_wrong(team: GcpTeam, tmp_path: Path) -> None:
    """Duplicates, a stockout at 6 of 12 machines, preemptions, a killed worker, no reconciler for an hour."""
    items, digests = team.put_items("survive", ITEMS, tmp_path)
    team.cloud.control("pubsub", duplicates=0.05)
    team.cloud.control("compute/stockout", limit=TO_BE_HAD)
    job = team.submit("survive", items, *HASH, chunk_size=CHUNK_SIZE, notify="oncall")
    # One that has never run is told in other words.
    await_that(lambda: "it runs every" in team.tidemill("doctor", ok=(0, 3)), "the reconciler has reported")
    team.cloud.control("scheduler/pause", paused=True)
    paused = time.monotonic()

    down = "the reconciler has not run since"
    await_that(lambda: told(team, job, down), "the status says that nobody reconciles")
    assert down in team.tidemill("status", job, ok=(0, 1))
    for share in (1, 2, 3):
        await_that(lambda share=share: team.done(job) >= ITEMS * share // 5, f"{share} fifths are done")
        if share == 1:
            team.cloud.control("compute/kill", instance=team.busy_machine())
        team.cloud.control("compute/preempt", instance=None)
    assert len([vm for vm in team.machines()["instances"] if vm["status"] == "RUNNING"]) <= TO_BE_HAD
    assert down in team.tidemill("doctor", ok=(3,))
    team.tidemill("wait", job)
    hour = 3600 / TIME_FACTOR
    await_that(lambda: time.monotonic() - paused > hour, "the reconciler was down for an hour")
    # Machines that are wanted but unavailable stay wanted while nothing lowers the target.
    assert max(team.machines()["targets"].values()) > TO_BE_HAD
    team.cloud.control("scheduler/pause", paused=False)

    # A worker tells it, or the client that waits if that looks first.
    team.cloud.control("pubsub", duplicates=0.0)
    [message] = await_that(team.told, "the end is told")
    assert base64.b64decode(message["data"]).decode().startswith(f"{job} succeeded: {ITEMS} items.")
    assert message["attributes"]["id"] == f"{job}/r0"
    # The record of it follows the message.
    await_that(lambda: team.status(job)["told"] == "oncall was told", "the store knows that it was told")
    assert not team.told(), "once"

    outcomes = team.results(job)
    assert Counter(outcome["index"] for outcome in outcomes) == Counter(range(ITEMS))
    assert {outcome["status"] for outcome in outcomes} == {"succeeded"}
    for outcome in outcomes[:: ITEMS // 100]:
        assert team.read(outcome["output"] + "sum").decode().split()[0] == digests[outcome["index"]]
    # Neither a reclaim nor a dead worker counts as a failed attempt of an item.
    assert {outcome["attempts"] for outcome in outcomes} == {1}
    assert team.status(job)["reclaims"] >= 1
    await_that(team.at_rest, "no machine is there or wanted")


def test_a_job_that_comes_when_all_have_powered_off(team: GcpTeam, tmp_path: Path) -> None:
    """It needs the reconciler once, because machines that are off count in the group's size."""
    team.cloud.control("compute/stockout", limit=None)
    items, _ = team.put_items("again", 20, tmp_path)
    first = team.submit("first", items, "true")
    team.tidemill("wait", first)

    def all_off() -> bool:
        found = team.machines()["instances"]
        return not any(vm["status"] in ("RUNNING", "PROVISIONING") for vm in found)

    await_that(all_off, "every machine is off")
    second = team.submit("second", items, "true")
    team.tidemill("wait", second)
    assert team.status(second)["succeeded"] == 20


def test_an_item_with_state_goes_on_where_it_was(team: GcpTeam) -> None:
    job = team.train("state")
    await_that(lambda: team.saved(job), "a snapshot")
    # The lines of a job, which tell who works on it, reach the log a moment after they are printed.
    await_that(lambda: compute_machines(team.cloud, job), "a machine works on the job")
    [row] = json.loads(team.tidemill("top", job, "--machines", "--json"))["machines"]
    assert row["id"] in {vm["name"] for vm in team.machines()["instances"]}
    assert (row["market"], row["items"], row["jobs"]) == ("spot", 1, [job])
    assert None not in row.values()
    code, printed = typed_reclaim(team, "other")
    assert (code, printed) == (2, "")
    code, printed = typed_reclaim(team, "state")
    (taken,) = re.findall("^(.*) has its notice and is taken back$", printed, re.MULTILINE)
    assert (code, taken in {vm["name"] for vm in team.machines()["instances"]}) == (0, True)
    team.tidemill("wait", job)
    (outcome,) = team.results(job)
    assert (outcome["status"], outcome["attempts"]) == ("succeeded", 1)
    await_that(lambda: "start 100" in team.lines(job, 0), "its lines are in the log bucket")
    assert "start 0" in team.lines(job, 0)


def typed_reclaim(team: GcpTeam, job: str) -> tuple[int, str]:
    """The exit code of `python -m localcloud reclaim --job JOB --count 3`, and what it prints."""
    command = [sys.executable, "-m", "localcloud", "reclaim", "--state", str(team.cloud.state), "--job", job]
    ended = subprocess.run([*command, "--count", "3"], capture_output=True, text=True, timeout=120, check=False)
    return ended.returncode, ended.stdout


def test_a_submitter_removes_no_job_and_the_stacks_owner_does(team: GcpTeam, tmp_path: Path) -> None:
    items, _ = team.put_items("removed", 4, tmp_path)
    job = team.submit("removed", items, "sh", "-c", 'echo > "$1/x"', "sh", "{output}", chunk_size=2)
    team.tidemill("wait", job)
    # The end of its chunks in the queue follows the records.
    await_that(lambda: not team.look(job).chunks.running, "no worker holds a chunk")
    owner = replace(team, person=team.cloud.env | {"TIDEMILL_PIPELINE": team.person["TIDEMILL_PIPELINE"]})
    before = owner.stored()
    told = team.refused("rm", job, "--yes")
    assert f"{job} stays, because this login may not delete" in told
    assert owner.stored() == before
    assert f"out/{job}/" in "".join(before)
    assert owner.tidemill("rm", job, "--yes").splitlines()[-1] == f"removed {job}"
    assert owner.stored() == [name for name in before if job not in name]
    assert f"There is no job '{job}'" in team.mistaken("status", job)


def test_a_failing_item_is_recorded_and_its_lines_are_kept(team: GcpTeam, tmp_path: Path) -> None:
    items, _ = team.put_items("failing", 6, tmp_path)
    script = 'test "$1" != 5 || { echo "item five is broken" >&2; exit 3; }'
    job = team.submit("failing", items, "sh", "-c", script, "sh", "{index}", chunk_size=3)
    team.tidemill("wait", job, ok=(1,))
    outcomes = {outcome["index"]: outcome for outcome in team.results(job)}
    assert sorted(outcomes) == list(range(6))
    assert [outcomes[index]["status"] for index in range(5)] == ["succeeded"] * 5
    five = outcomes[5]
    assert (five["reason"], five["exit_code"], five["attempts"]) == ("exit", 3, 3)
    assert five["error"] == "item five is broken"
    await_that(lambda: team.lines(job, 5).count(five["error"]) == 3, "a line of each attempt is in the log bucket")
    assert team.tidemill("logs", job, "--item", "5").count(five["error"]) == 3
    report = json.loads(team.tidemill("report", job, "--json"))
    assert sum(place["items"] for place in report["places"]) == 6
    assert {place["market"] for place in report["places"]} == {"spot"}
    assert all(place["type"] and place["zone"] for place in report["places"])
    assert [group["items"] for group in report["failing"]["groups"]] == [[5]]
    assert report["first_item_seconds"] is not None


def test_a_cancelled_job_stops_and_the_next_one_runs(team: GcpTeam, tmp_path: Path) -> None:
    # Few machines: workers look for a tombstone every 30 seconds, and the work must last much longer than that.
    await_that(team.at_rest, "no machine is there or wanted")
    team.cloud.control("compute/stockout", limit=2)
    items, _ = team.put_items("cancel", 300, tmp_path)
    job = team.submit("cancel", items, "sh", "-c", "sleep 3; : > $TIDEMILL_OUTPUT/x", chunk_size=2)
    await_that(lambda: team.done(job) > 0, "the first chunk is done")
    team.tidemill("cancel", job)
    few, _ = team.put_items("after", 4, tmp_path)
    after = team.submit("after", few, "true")
    team.tidemill("wait", after)
    assert team.status(after)["succeeded"] == 4
    assert team.done(job) < 300


def test_three_jobs_begin_one_after_the_other_without_a_client(team: GcpTeam, tmp_path: Path, held: Gate) -> None:
    """The reconciler publishes a job when the one before is complete, and machines start only then. The first job's
    items and the factor are files of the submitter, to whom the results come back."""
    for name, number in (("items/a", 1), ("items/b", 2), ("items/more/a", 3), ("factor/deep/x", 2)):
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
        # The hash of a file that was written a moment ago is not remembered.
        os.utime(path, (1e9, 1e9))
    submit = ["submit", "--queue", "cpu", "--json", "--chunk-size", "1", "--shell"]

    def sent(name: str, *more: str) -> str:
        return json.loads(team.tidemill(*submit, "--name", name, *more))["job"]

    copy = ["--items", f"{tmp_path}/items", "--", f'{held.wait}; cp "$TIDEMILL_INPUT" "$TIDEMILL_OUTPUT/number"']
    sent("first", *copy)
    again = json.loads(team.tidemill(*submit, "--dry-run", *copy))
    assert (again["upload_files"], again["uploaded_files"]) == (0, 3)
    double = 'n=$(cat "$TIDEMILL_INPUT/number"); f=$(cat "$TIDEMILL_INPUT_FACTOR/deep/x")'
    double += '; echo $((n * f)) > "$TIDEMILL_OUTPUT/number"'
    factor = f"factor={tmp_path}/factor"
    second = sent("second", "--items", "job://first/output", "--input", factor, "--", double)
    add = 'cat "$TIDEMILL_INPUT"/*/number | tr "\\n" " " > "$TIDEMILL_OUTPUT/all"'
    third = sent("third", "--after-success", "second", "job://second/output", "--", add)
    waiting = team.status(third)
    assert waiting["waits_for"] == [{"job": second, "ended": 0, "items": 3}], waiting
    held.open()
    store = team.person["TIDEMILL_PIPELINE"].rpartition("/")[0]

    def done() -> bool:
        """Whether the last job is done, without the client, which would publish what is due."""
        try:
            return bool(team.read(f"{store}/{layout.done(third, 0, 0)}"))
        except HTTPError:
            return False

    await_that(done, "the last job is done")
    [result] = team.results(third)
    assert team.read(f"{result['output']}all").split() == [b"2", b"4", b"6"]
    team.tidemill("fetch", "first", "-o", f"{tmp_path}/down", "--name", "{path}{ext}")
    down = {path.relative_to(tmp_path / "down").as_posix(): path.read_text() for path in tmp_path.glob("down/**/a*")}
    assert down == {"a": "1", "more/a": "3"}
    assert [json.loads(team.read(f"{store}/{layout.begun(job)}"))["by"] for job in (second, third)] == [
        "reconciler"
    ] * 2


def test_advice_is_live_with_the_stacks_grant_and_says_what_is_missing_without(team: GcpTeam, tmp_path: Path) -> None:
    """The figures are localcloud's: whether Google's are right, it cannot tell."""
    said = advice(team, tmp_path / "with")
    assert {shape["score"]["source"] for shape in said["shapes"] if shape["market"] == "spot"} == {ADVICE}
    assert not [note for note in said["notes"] if "denied" in note]
    name = "v1/projects/{project}/roles/demo_local_submitter"
    role = team.google.call("iam", "GET", name)
    kept = [each for each in role["includedPermissions"] if not each.startswith("compute.advice.")]
    team.google.call("iam", "PATCH", f"{name}?updateMask=includedPermissions", {"includedPermissions": kept})
    try:
        without = advice(team, tmp_path / "without")
    finally:
        given = {"includedPermissions": role["includedPermissions"]}
        team.google.call("iam", "PATCH", f"{name}?updateMask=includedPermissions", given)
    assert len(kept) == len(role["includedPermissions"]) - 2
    assert {shape["score"] for shape in without["shapes"]} == {None}
    assert [note for note in without["notes"] if note.startswith(f"{ADVICE} is denied") and "advise: true" in note]


ADVICE = "compute.advice.capacity"
