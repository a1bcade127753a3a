"""The commands of docs/cli.md are ones that the program takes. What this cannot prove: what they answer."""

import re
import shlex
from pathlib import Path

import click
import pytest

from tidemill.cli import documents
from tidemill.cli.app import app

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [re.sub(r'^eval "\$\((.*)\)"$', r"\1", line) for block in BLOCKS for line in block.splitlines()]


def test_there_are_commands():
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("typed", COMMANDS)
def test_the_program_takes_the_command(typed):
    words = shlex.split(typed)
    program, verb, *arguments = words[: words.index(">")] if ">" in words else words
    assert program == "tidemill"
    found = app.get_command(click.Context(app), verb)
    assert found is not None
    found.make_context(verb, arguments)


@pytest.mark.parametrize("verb", documents.documents())
def test_every_schema_says_what_it_is(verb):
    assert (
        f'"title": "tidemill {verb if verb != "error" else "..."} --json"' in documents.schemas()[f"{verb}.schema.json"]
    )
