"""What the documents name exists: files, links, commands of the CLI. What their sentences say is not shown here."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from ops.project import ROOT
from tidemill.cli.app import app

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
ROOMS = ("benchmarks", "components", "docs", "examples", "localcloud", "ops", "plugin", "policy", "stacks", "tests",
         "tidemill", "worker_image")  # fmt: skip
MADE = {"stacks/Pulumi.audio-dev.yaml", "stacks/Pulumi.zoo-dev.yaml", "tidemill/contexts.json"}
"""What commands on the pages write."""
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)]+))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = page.read_text()
    heads = (re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.+)$", text, re.M))
    return {*heads, *re.findall(r'<a id="([^"]+)">', text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target, anchor in LINK.findall(text):
        if "://" not in target and not target.startswith("mailto:"):
            found = (page.parent / target).resolve() if target else page
            assert found.exists(), target
            assert not anchor or anchor in anchors(found), f"{target}#{anchor}"
    # In backticks, or on a line of a picture.
    for word in {*CODE.findall(text), *re.findall(r"<br/>([\w./]+\w)\"", text)}:
        if re.fullmatch(rf"({'|'.join(ROOMS)})(/[\w.-]+)+/?", word):
            assert word in MADE or (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_ones_that_the_program_takes(page: Path) -> None:
    for word in CODE.findall(page.read_text()):
        if re.match(r"tidemill [a-z]+( |$)", word) and not re.search(r"…|\.\.\.|\$", word):
            _, name, *arguments = shlex.split(word)
            command = app.get_command(click.Context(app), name)
            assert command is not None, word
            known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
            own = arguments[: arguments.index("--")] if "--" in arguments else arguments
            assert {option.partition("=")[0] for option in own if option.startswith("--")} <= known | {"--help"}, word


def test_what_one_cloud_needs_is_a_part_of_what_is_locked() -> None:
    def locked(name: str) -> set[str]:
        return set(re.findall(r"^[\w.-]+(?:\[[\w,]+\])?==\S+", (ROOT / name).read_text(), re.MULTILINE))

    whole, groups = locked("requirements.txt"), tomllib.loads((ROOT / "pyproject.toml").read_text())
    for cloud in ("aws", "gcp"):
        part = locked(f"requirements-{cloud}.txt")
        assert part < whole
        wanted = {entry for entry in groups["dependency-groups"][cloud] if isinstance(entry, str)}
        names = {re.split(r"[^\w-]", entry, maxsplit=1)[0] for entry in wanted}
        assert names <= {re.split(r"[\[=]", entry, maxsplit=1)[0] for entry in part}
