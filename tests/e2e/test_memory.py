"""An item that is killed for memory gets a larger container in the next round: through Batch's real requests, with the
rights that the stack gives. localcloud does not enforce a container's memory; the worker does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.team import Team

PROGRAM = "import sys, time; held = 'x' * (200 << 20) if sys.argv[1] == '1' else ''; time.sleep(1)"


def test_an_item_without_enough_memory_gets_twice_as_much(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("memory", 2, tmp_path)
    job = team.submit(
        "memory", items, sys.executable, "-c", PROGRAM, "{index}", memory="192M", memory_max="768M", attempts="1"
    )
    waited = json.loads(team.tidemill("wait", job, "--json"))
    assert (waited["state"], waited["succeeded"], waited["rounds"]) == ("succeeded", 2, 2)
    found = {each["index"]: each["memory_mib"] for each in team.results(job)}
    assert found == {0: None, 1: 384}
