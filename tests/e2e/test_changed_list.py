"""`submit --changed` on AWS. The same on GCP is in test_gcp_machines_that_fail.py."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.changed_list import check_a_list_that_grew
from tests.e2e.team import Team


def test_one_item_more_runs_one_item(team: Team, tmp_path: Path) -> None:
    items, _ = team.put_items("grew", 4, tmp_path)
    check_a_list_that_grew(team, items, tmp_path)
