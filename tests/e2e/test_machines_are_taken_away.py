"""A job whose machines are reclaimed and whose worker is killed loses nothing.

The machines are namespaces of this one; how often and how fast a real cloud reclaims machines is not shown here.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from localcloud.cloud import CloudError
from localcloud.reclaim import reclaim
from tests.e2e.team import Team, await_that

ITEMS = 300
RECLAIMS = 3


def workers_below(pid: int) -> list[int]:
    """Processes below one that run our worker, children of children included."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return [found for found in below if b"tidemill.worker" in commands.get(found, b"")]


def kill_a_worker(team: Team) -> None:
    """Send SIGKILL, as the kernel does when memory runs out: no notice, no drain."""

    def killed() -> bool:
        running = [child for child in team.cloud.control("batch/children")["children"] if child["status"] == "RUNNING"]
        for worker in (worker for child in running for worker in workers_below(child["pid"])):
            # It may have ended by itself a moment ago.
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                return True
        return False

    await_that(killed, "a worker runs and is killed")


def test_three_reclaims_and_a_killed_worker_among_300_items(team: Team, tmp_path: Path) -> None:
    items, digests = team.put_items("survive", ITEMS, tmp_path)
    # A chunk takes 12 s, more than twice the worker's five seconds between two checks for a notice.
    script = 'sleep 0.8; sha256sum < "$1" > "$2/sum"'
    job = team.submit("survive", items, "sh", "-c", script, "sh", "{input}", "{output}", chunk_size=15)

    taken = []
    for fifth in range(1, RECLAIMS + 1):
        await_that(lambda share=fifth: team.done(job) >= ITEMS * share // 5, f"{fifth} fifths are done")
        taken.append(team.cloud.control("batch/reclaim")["instance"])
        if fifth == 1:
            kill_a_worker(team)
    team.tidemill("wait", job)

    assert len(set(taken)) == RECLAIMS
    outcomes = team.results(job)
    assert Counter(outcome["index"] for outcome in outcomes) == Counter(range(ITEMS))
    assert {outcome["status"] for outcome in outcomes} == {"succeeded"}
    for outcome in outcomes:
        assert team.read(outcome["output"] + "sum").split()[0].decode() == digests[outcome["index"]]
    # Neither a reclaim nor a dead worker counts as a failed attempt of an item.
    assert {outcome["attempts"] for outcome in outcomes} == {1}


def test_an_item_with_state_goes_on_where_it_was(team: Team) -> None:
    """No snapshot is due before the machine goes; one is taken because EC2 says that this has become likely."""
    job = team.train("state", every="1h")
    await_that(lambda: "saved 100" in team.lines(job, 0), "half of the steps")
    assert not team.saved(job)

    def at_work() -> list[str]:
        machines = team.cloud.control("batch/machines")["machines"]
        return [each["instance"] for each in machines if each["children"]]

    await_that(lambda: len(at_work()) == 1, "no machine but the item's is at work")
    instance = team.cloud.control("batch/rebalance")["instance"]
    await_that(lambda: team.saved(job), "a snapshot")
    assert team.status(job)["reclaims"] == 0
    with pytest.raises(CloudError, match="No Spot machine without a notice works on other"):
        reclaim(team.cloud, "other")
    assert reclaim(team.cloud, job.rpartition("-")[0], 3) == [instance]
    team.tidemill("wait", job)

    def starts() -> list[str]:
        return [line for line in team.lines(job, 0) if line.startswith("start")]

    await_that(lambda: len(starts()) > 1, "the lines of the second attempt have arrived")
    assert starts() == ["start 0", "start 100"]
    (outcome,) = team.results(job)
    assert (outcome["status"], outcome["attempts"], outcome["reclaims"]) == ("succeeded", 1, 1)


def check_report(team: Team, job: str, items: int) -> None:
    """Containers do not reach instance metadata: where they ran, the host has told them."""
    report = json.loads(team.tidemill("report", job, "--json"))
    assert report["emulated"]
    assert sum(place["items"] for place in report["places"]) == items
    for place in report["places"]:
        assert place["market"] == "spot"
        assert re.fullmatch(r"\w+\.\w*large", place["type"])
        assert re.fullmatch(r"us-west-2[a-z]", place["zone"])
    (group,) = report["failing"]["groups"]
    assert (group["items"], group["message"]) == ([5], "item five is broken")


def test_a_failing_item_is_recorded_and_stops_nothing(team: Team, tmp_path: Path) -> None:
    items, digests = team.put_items("failing", 12, tmp_path)
    script = 'test "$1" != 5 || { echo "item five is broken" >&2; exit 3; }; sha256sum < "$2" > "$3/sum"'
    job = team.submit("failing", items, "sh", "-c", script, "sh", "{index}", "{input}", "{output}", chunk_size=4)
    team.tidemill("wait", job, ok=(1,))

    outcomes = {outcome["index"]: outcome for outcome in team.results(job)}
    assert sorted(outcomes) == list(range(12))
    failed = outcomes.pop(5)
    assert (failed["status"], failed["reason"], failed["exit_code"], failed["attempts"]) == ("failed", "exit", 3, 3)
    assert failed["error"] == "item five is broken"
    for index, outcome in outcomes.items():
        assert team.read(outcome["output"] + "sum").split()[0].decode() == digests[index]
    # The last lines follow the record.
    await_that(lambda: team.lines(job, 5).count("item five is broken") == 3, "a line of each attempt has arrived")
    assert team.tidemill("logs", job, "--item", "5").count("item five is broken") == 3
    check_report(team, job, 12)


def test_a_cancelled_job_stops_and_its_remaining_items_are_not_run(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("cancel", 200, tmp_path)
    job = team.submit("cancel", items, "sh", "-c", "sleep 1.5; : > $TIDEMILL_OUTPUT/x", chunk_size=2)
    await_that(lambda: team.done(job) > 0, "the first chunk is done")
    team.tidemill("cancel", job)

    def ended() -> bool:
        children = team.cloud.control("batch/children")["children"]
        return not [child for child in children if child["status"] in ("RUNNABLE", "STARTING", "RUNNING")]

    await_that(ended, "no child of the job is left")
    assert 0 < team.done(job) < 200
