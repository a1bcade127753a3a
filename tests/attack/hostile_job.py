"""A job whose items try ways out, on the machines of a team, and what came of each."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.gcp import GcpTeam
from tests.e2e.team import Team

PROGRAMS = Path(__file__).parent / "programs"
OTHERS = "audio-dev-store-bucket-1a2b3c4"
"""The store of another team."""


class HostileJob:
    """A job with an item for each way of a table, when it has ended.

    Args:
        team: Whose job it is.
        program: The name of the hostile program.
        ways: The ways, each with the reason why it leads nowhere, as a regular expression.
        facts: What the program knows of the stack.
        folder: A folder for the list of items.
    """

    def __init__(
        self, team: Team | GcpTeam, program: str, ways: Mapping[str, str], facts: Mapping[str, str], folder: Path
    ) -> None:
        self._team, self._ways = team, ways
        items = folder / "items.txt"
        items.write_text("".join(f"{way}\n" for way in ways))
        words = (sys.executable, str(PROGRAMS / program), "{uri}", "{output}", json.dumps(facts))
        self.id = team.submit("hostile", items, *words, chunk_size=16)
        team.tidemill("wait", self.id)
        self._said = {
            outcome["uri"]: team.read(outcome["output"] + "said").decode()
            for outcome in team.results(self.id)
            if outcome["status"] == "succeeded"
        }

    def check_way(self, way: str) -> None:
        """A way was closed, for the reason that the table has."""
        said = self._said[way]
        assert not said.startswith("IN: "), said
        assert re.search(self._ways[way], said), said

    def check_fetch(self, folder: Path) -> None:
        """A fetch into a folder deep below this one writes nothing elsewhere. A worker uploads no name that leads out,
        but a program has the job's rights, and stores what it likes."""
        target = folder / "a/b/c/d/e"
        self._team.tidemill("fetch", self.id, "-o", str(target), ok=(0, 1, 2))
        assert not [path for path in folder.rglob("*") if path.is_file() and target not in path.parents]
        assert not list(folder.rglob("owned"))
