"""The page for readers who come from other tools, from the table of habits: `python -m tests.habits.page
docs/coming-from.md` writes it."""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import yaml

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("habits.yaml")
HEAD = """# Coming from other tools

What you do there, and what you write here. `pipeline` is `tidemill.Pipeline.local()`, or a pipeline of your team with
`queue=` in the call; `tidemill run` is `tidemill submit` there. Each row runs as a test.
"""


class Habit(TypedDict):
    """A row of the table."""

    tool: str
    habit: str
    page: str
    python: NotRequired[str]
    console: NotRequired[str]
    then: NotRequired[str]
    refused: NotRequired[str]


def habits() -> list[Habit]:
    """Every row, in the order in which they run."""
    return cast(list[Habit], yaml.safe_load(TABLE.read_text()))


def page_of(rows: list[Habit]) -> str:
    """The page as Markdown, with its code formatted like that of every page."""
    parts = [HEAD]
    for tool, some in groupby(rows, lambda row: row["tool"]):
        parts.append(f"## {tool}\n")
        parts += [_shown(row) for row in some]
    format_page = [Path(sys.executable).with_name("ruff"), "format", "--stdin-filename", "docs/page.md", "-"]
    done = subprocess.run(
        format_page, input="\n".join(parts), cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def _shown(row: Habit) -> str:
    title = f"{row['habit']} ([their page]({row['page']})):"
    kind = "python" if "python" in row else "console"
    lines = (row.get("python") or row.get("console") or "").rstrip()
    refused = f"\nThis is refused: {row['refused']}\n" if "refused" in row else ""
    return f"{title}\n\n```{kind}\n{lines}\n```\n{refused}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page_of(habits()))
