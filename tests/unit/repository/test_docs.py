"""Everything that the documents name exists: files, links, commands of the CLI. Their sentences are not checked."""

import re
import shlex
from pathlib import Path

import click
import pytest

from ops.project import ROOT
from tidemill.cli.app import app

INDEX = ROOT / "docs" / "adr" / "README.md"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", INDEX, *(ROOT / "docs").glob("*.md")])
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(
    r"(benchmarks|components|docs|examples|localcloud|ops|plugin|policy|stacks|tests|tidemill)(/[\w.-]+)+/?"
)
MADE = {
    "stacks/Pulumi.audio-dev.yaml",
    "stacks/Pulumi.zoo-dev.yaml",
    "tidemill/contexts.json",
    "tidemill/personal/Pulumi.ada-personal.yaml",
    "tidemill/secrets.json",
}
"""Files that commands on the pages write."""
of_pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = page.read_text()
    heads = (re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.M))
    return {*heads, *re.findall(r'<a id="([^"]+)">', text)}


@of_pages
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]+))?\)", text):
        if "://" not in target:
            found = (page.parent / target).resolve() if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), f"{target}#{anchor}"
    # In backticks, or on a line of a picture.
    for word in {*CODE.findall(text), *re.findall(r"<br/>([\w./]+\w)\"", text)}:
        assert not PATH.fullmatch(word) or word in MADE or (ROOT / word).exists(), word


@of_pages
def test_the_program_takes_the_commands(page: Path) -> None:
    """Commands in blocks exactly as written; for commands within a sentence, which omit arguments, only the options."""
    blocks = "".join(re.findall(r"```console\n(.*?)```", text := page.read_text(), re.DOTALL)).replace("\\\n", "")
    typed = re.findall(r"^(?:eval \"\$\()?(tidemill .+?)(?:\)\"| > ~.*)?$", blocks, re.MULTILINE)
    assert page.name != "cli.md" or len(typed) > 10
    inline = [word for word in CODE.findall(text) if re.match(r"tidemill [a-z]+( |$)", word)]
    for line in (*typed, *inline):
        _, name, *arguments = shlex.split(line)
        command = app.get_command(click.Context(app), name)
        assert command is not None, line
        if isinstance(command, click.Group) and not (command.invoke_without_command and arguments[:1] != ["request"]):
            name = arguments.pop(0)
            assert name in command.commands, line
            command = command.commands[name]
        if line in typed:
            command.make_context(name, arguments)
        known = {option for param in command.params for option in (*param.opts, *param.secondary_opts, "--help")}
        assert set(re.findall(r" (--[a-z-]+)", line.partition(" -- ")[0])) <= known, line


def test_the_index_has_each_decision_with_what_changed_it() -> None:
    rows = re.findall(r"^\| \[(\d+)\]\((.+?)\) \| .+ \| (?:\[(\d+)\]\(.+\))? *\|$", INDEX.read_text(), re.M)
    records = sorted(path.name for path in INDEX.parent.glob("*.md") if path != INDEX)
    assert sorted(name for _, name, _ in rows) == records
    for number, name, later in rows:
        title, _, status, *_ = (INDEX.parent / name).read_text().splitlines()
        assert title.startswith(f"# {number}. "), name
        assert status.startswith("Status: accepted, 20"), name
        head = (INDEX.parent / name).read_text().partition("\n## ")[0]
        assert not later or f"ADR {later}" in head, f"{name} does not say what ADR {later} changes"


def test_what_one_cloud_needs_is_a_part_of_what_is_locked() -> None:
    locked = {
        name: set(re.findall(r"^[^\s#]+==\S+", (ROOT / f"requirements{name}.txt").read_text(), re.MULTILINE))
        for name in ("", "-aws", "-gcp")
    }
    for cloud in ("aws", "gcp"):
        assert locked[f"-{cloud}"] < locked[""]
        assert any(entry.startswith(f"pulumi-{cloud}==") for entry in locked[f"-{cloud}"])
