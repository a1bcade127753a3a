"""Outcomes as files. What this cannot prove: that every reader of Parquet likes ours."""

import importlib
import importlib.util
import json

import pytest

from tests.unit.client_fakes import outcome
from tidemill.client import export as module
from tidemill.client.export import export
from tidemill.errors import CallerError

SOME = [outcome(n, f"s3://raw/{n}.jpg", n == 3) for n in range(5)]
PYARROW = importlib.util.find_spec("pyarrow") is not None


def test_json_lines(tmp_path):
    assert export(iter(SOME), tmp_path / "out.jsonl") == 5
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["succeeded"] * 3 + ["failed", "succeeded"]


def test_parquet_or_the_name_of_what_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "out.parquet"
    monkeypatch.setattr(module, "ROWS_A_GROUP", 2)
    if not PYARROW:
        with pytest.raises(CallerError, match=r"pip install 'tidemill\[parquet\]'"):
            export(iter(SOME), path)
        assert not path.exists()
        return
    parquet = importlib.import_module("pyarrow.parquet")

    assert export(iter(SOME), path) == 5
    file = parquet.ParquetFile(path)
    assert file.num_row_groups == 3
    rows = file.read().to_pylist()
    assert [row["index"] for row in rows] == list(range(5))
    assert (rows[3]["error"], rows[3]["exit_code"], rows[0]["error"]) == ("ValueError: no", 1, None)


def test_of_a_job_without_outcomes(tmp_path):
    assert export(iter(()), tmp_path / "out.jsonl") == 0
    assert (tmp_path / "out.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("out.csv", None, "format is 'csv'; it must be jsonl or parquet"),
        ("no/out.jsonl", None, "No such file or directory"),
        ("out", "xml", "format is 'xml'"),
    ],
)
def test_what_cannot_be_written(tmp_path, name, form, words):
    with pytest.raises(CallerError, match=words):
        export(iter(SOME), tmp_path / name, form)
