"""The generated reference of the stack files' keys, and the commands of docs/teams.md."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from components import reference
from components.config.models import StackConfig
from components.config.shared_models import SharedConfig
from ops import project
from ops.__main__ import main

TEAMS = project.ROOT / "docs" / "teams.md"


def test_the_reference_is_fresh():
    for file, text in ((reference.FILE, reference.text()), (reference.OUTPUTS_FILE, reference.outputs_text())):
        assert file.read_text(encoding="utf-8") == text, "run: python -m components.reference"


@pytest.mark.parametrize("model", [StackConfig, SharedConfig])
def test_every_key_has_a_row_with_a_sentence(model: Any):
    schema = model.model_json_schema()
    rows = set(re.findall(r"^\| `(?:tidemill[a-z-]*:)?(\w+)` \| .+ \| .+ \| .{4,} \|$", reference.text(), re.MULTILINE))
    for keys in (schema, *schema["$defs"].values()):
        assert set(keys["properties"]) <= rows


def commands() -> Iterator[list[str]]:
    """Arguments of every `python -m ops` in the page's blocks, in their order."""
    for block in re.findall(r"```console\n(.*?)```", TEAMS.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line)
            if words[:3] == [".venv/bin/python", "-m", "ops"]:
                yield words[3:]


def test_the_pages_commands_do_what_it_says(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(project, "STACKS", tmp_path)
    ran, texts = [], []
    for arguments in commands():
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        ran.append(arguments[0])
        texts.append((tmp_path / "Pulumi.audio-dev.yaml").read_text())
    assert ran == ["stack", "check", "check", "queue", "queue", "queue", "queue"]
    assert "    gpu:" in texts[-2]
    # What was added, set and removed leaves the file as it was written, but for the repository that keeps its images.
    assert texts[-1].replace("  tidemill:registry: {repositories: [embed]}\n", "") == texts[0] != texts[-1]
