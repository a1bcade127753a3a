"""Every row of docs/cloud-facts.md names code that exists, a source, and how sure it is."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROWS = [
    [cell.strip() for cell in line.strip("| \n").split(" | ")]
    for line in (ROOT / "docs" / "cloud-facts.md").read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| behaviour"))
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_row_names_code_that_exists(row: list[str]) -> None:
    assert len(row) == 4, row
    _, code, source, status = row
    places = re.findall(r"`([^`]+)`", code)
    assert places
    for place in places:
        path, _, symbol = place.partition(":")
        text = (ROOT / "localcloud" / path).read_text()
        assert re.search(rf"\b{re.escape(symbol)}\b", text), place
    assert source
    assert status.startswith(("verified", "assumed"))
