"""A list that grew, sent with --changed on a cloud's pipeline: one item runs, and a job after it reads all."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.gcp import GcpTeam
from tests.e2e.team import Team

WRITE = 'cat "$TIDEMILL_INPUT" > "$TIDEMILL_OUTPUT/copy"'
COUNT = (
    'ls "$TIDEMILL_INPUT_ALL" | wc -l > "$TIDEMILL_OUTPUT/folders"; '
    'cat "$TIDEMILL_INPUT_ALL"/*/copy >> "$TIDEMILL_OUTPUT/folders"'
)


def check_a_list_that_grew(team: Team | GcpTeam, items: Path, folder: Path) -> None:
    """Run the items but the last, then all of them with --changed, and read all results."""
    uris = items.read_text().splitlines()
    submit = ("submit", "--queue", "cpu", "--chunk-size", "2", "--json", "--shell")

    def sent(name: str, *more: str) -> str:
        job = json.loads(team.tidemill(*submit, "--name", name, *more))["job"]
        team.tidemill("wait", job)
        return job

    fewer = folder / "fewer.txt"
    fewer.write_text("\n".join(uris[:-1]))
    first = sent("grew", "--items", str(fewer), "--", WRITE)
    second = sent("grew", "--changed", "--items", str(items), "--", WRITE)
    status = team.status(second)
    assert (status["state"], status["succeeded"], status["shared"]) == ("succeeded", len(uris), len(uris) - 1)
    assert status["origins"] == {first: len(uris) - 1}
    results = team.results(second)
    assert [one["uri"] for one in results] == uris
    assert [one["origin"] for one in results] == [*(f"{first}/{n}" for n in range(len(uris) - 1)), None]
    team.tidemill("fetch", second, "-o", str(folder / "copies"), "--name", "{index}")
    assert len(list((folder / "copies").glob("*/copy"))) == len(uris)
    # A worker reads what another job of the store has computed.
    after = sent("count", "--after-success", second, "--input", f"all=job://{second}/output", "x", "--", COUNT)
    (one,) = team.results(after)
    copies = [(folder / "copies" / str(index) / "copy").read_bytes() for index in range(len(uris))]
    assert team.read(f"{one['output']}folders") == f"{len(uris)}\n".encode() + b"".join(copies)
