"""What items and programs say reaches no terminal as a control sequence. Redirected CSV keeps every byte."""

import json
import re

import pytest

from tests.unit.hostile import HOSTILE
from tests.unit.report_jobs import made_job, plain
from tidemill.cli import main
from tidemill.client import site as site_module
from tidemill.clouds.account import LogLine
from tidemill.visible import json_line, visible

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]")


@pytest.mark.parametrize("text", ["plain", "größer als 9 MiB: 漢字 é ✓", "a\tb\nc"])
def test_what_people_write_stays(text):
    assert visible(text) == text
    assert json.loads(json_line({"x": text})) == {"x": text}


def test_colours_go_and_other_sequences_show():
    assert visible("\x1b[1;31mred\x1b[0m \x1b[2J") == "red \N{REPLACEMENT CHARACTER}[2J"
    assert json.loads(json_line("\x9b2J\u202e\x1b")) == "\x9b2J\u202e\x1b"


def test_forty_texts(tmp_path, monkeypatch, capsys):
    assert len(HOSTILE) == 40

    def failing(index, rng):
        made = plain(index, rng)
        made.status, made.reason, made.exit_code, made.attempts = "failed", "exit", 1, 1
        made.uri = made.error = HOSTILE[index][:5000]
        return made

    made = made_job(40, 8, outcome=failing, uri=f"file://{tmp_path}/store")
    job, backend = made.job, made.backend
    (tmp_path / "store" / "pipeline.json").write_text(job._watched.site.descriptor.model_dump_json())
    monkeypatch.setattr(site_module, "open_backend", lambda *_: backend)
    monkeypatch.setenv("TIDEMILL_PIPELINE", f"file://{tmp_path}/store/pipeline.json")
    backend.lines = [
        LogLine(
            1.0 * n,
            text[:5000],
            "s",
            {"job": job.id, "item": n, "attempt": 1, "stream": "stdout", "message": text[:5000]},
        )
        for n, text in enumerate(HOSTILE)
    ]
    job.cancel(HOSTILE[20])
    for command in (["failures", "--all"], ["results"], ["status"], ["logs"], ["wait"], ["explain"]):
        for form in ([], ["--json"]):
            assert main([command[0], job.id, *command[1:], *form]) in (0, 1)
            said = capsys.readouterr()
            assert said.out, command
            assert not UNSAFE.search(said.out + said.err), (command, form)


def test_an_error_with_a_hostile_name(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEMILL_PIPELINE", f"file://{tmp_path}/\x1b[2J/pipeline.json")
    assert main(["status", "\x1b]0;owned\x07"]) == 2
    assert not UNSAFE.search(capsys.readouterr().err)
