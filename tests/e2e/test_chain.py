"""Three jobs after each other on AWS Batch, sent at once: nobody has to watch them.

The queue keeps the later arrays waiting by their dependencies. That AWS Batch does so is a fact in docs/cloud-facts.md;
localcloud imitates it.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.team import Team, await_that
from tests.gate import Gate

WRITE = 'echo "$TIDEMILL_INDEX" > "$TIDEMILL_OUTPUT/number"'
DOUBLE = 'echo $(($(cat "$TIDEMILL_INPUT/number") * 2)) > "$TIDEMILL_OUTPUT/number"'
ADD = (
    'cat "$TIDEMILL_INPUT"/*/number "$TIDEMILL_INPUT_FIRST"/*/number | sort -n | tr "\\n" " " > "$TIDEMILL_OUTPUT/all"'
)


def test_three_jobs_begin_one_after_the_other(team: Team, tmp_path: Path, held: Gate) -> None:
    items, _ = team.put_items("chain", 3, tmp_path)
    submit = ["submit", "--queue", "cpu", "--json", "--chunk-size", "1", "--shell"]

    def sent(name: str, *more: str) -> str:
        return json.loads(team.tidemill(*submit, "--name", name, *more))["job"]

    first = sent("first", "--items", str(items), "--", f"{held.wait}; {WRITE}")
    second = sent("second", "--items", "job://first/output", "--", DOUBLE)
    third = sent(
        "third", "--after-success", "second", "--input", "first=job://first/output", "job://second/output", "--", ADD
    )
    assert team.status(third)["note"] == f"waits for {second} (0 of 3 items) and {first} (0 of 3 items)"
    assert [
        row["waits_for"][0]["job"] for row in json.loads(team.tidemill("jobs", "--limit", "2", "--json"))["jobs"]
    ] == [second, first]
    held.open()
    # From here on no client looks at a job that waits.
    await_that(lambda: team.names(f"out/{third}/"), "the last job has written its output")
    team.tidemill("wait", third)
    [result] = team.results(third)
    assert team.read(f"{result['output']}all").split() == [b"0", b"0", b"1", b"2", b"2", b"4"]
    for job in (first, second, third):
        assert team.status(job)["state"] == "succeeded"
