"""Habits from other tools, executed on this machine in a folder for each tool. What this cannot prove: that the pages
of the other tools still say so; their addresses are in the table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tests.habits.page import habits, page_of
from tidemill.errors import CallerError

ROOT = Path(__file__).resolve().parents[2]
ROWS = habits()
SECONDS = 120


@pytest.fixture
def here(tmp_path, monkeypatch):
    """This machine as a pipeline, in a current folder that has two files."""
    (tmp_path / "data").mkdir()
    for name, text in (("1.txt", "a b\n"), ("2.txt", "c\n")):
        (tmp_path / "data" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMILL_SCRATCH", str(tmp_path / "scratch"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("TIDEMILL_PIPELINE", raising=False)
    return tidemill.Pipeline.local(workers=2)


@pytest.mark.parametrize("tool", dict.fromkeys(row["tool"] for row in ROWS))
def test_every_habit(here, subtests, tool):
    """In the order of the table, because some rows read what others have made."""
    for row in (row for row in ROWS if row["tool"] == tool):
        with subtests.test(msg=row["habit"]):
            names: dict[str, Any] = {"__name__": "__main__", "pipeline": here, "tidemill": tidemill}
            if "refused" in row:
                with pytest.raises(CallerError) as refused:
                    exec(row.get("python", ""), names)
                assert str(refused.value).startswith(row["refused"])
                continue
            if "python" in row:
                exec(row["python"], names)
            else:
                names["out"] = typed(row.get("console", ""))
            assert eval(row.get("then", "False"), names), names.get("out", "")


def typed(commands: str) -> str:
    """What commands print when a person types them."""
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_most_of_them_work():
    assert len(ROWS) >= 40
    assert sum("refused" not in row for row in ROWS) >= 34


def test_the_page_has_every_row():
    page = ROOT / "docs" / "coming-from.md"
    assert page.read_text() == page_of(ROWS), "python -m tests.habits.page docs/coming-from.md"
