"""Outcomes as files. What this cannot prove: that every reader of Parquet likes ours."""

import csv
import importlib
import importlib.util
import json

import pytest

from tests.unit.client_fakes import outcome
from tidemill.client.results import export as module
from tidemill.client.results.export import ExportResult, export, meta_keys, with_meta
from tidemill.errors import CallerError
from tidemill.job import Item

SOME = [outcome(n, f"s3://raw/{n}.jpg", n == 3) for n in range(5)]
PYARROW = importlib.util.find_spec("pyarrow") is not None


def test_json_lines(tmp_path):
    assert export(iter(SOME), tmp_path / "out.jsonl").count == 5
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

    assert export(iter(SOME), path).count == 5
    file = parquet.ParquetFile(path)
    assert file.num_row_groups == 3
    rows = file.read().to_pylist()
    assert [row["index"] for row in rows] == list(range(5))
    assert (rows[3]["error"], rows[3]["exit_code"], rows[0]["error"]) == ("ValueError: no", 1, None)


META = [{"lr": 0.1, "seed": 1}, None, {"seed": 2, "note": 'a "b",\nc'}, {"lr": None, "tags": ["x", {"y": True}]}, {}]


def with_metadata(metas):
    pairs = [
        (outcome(n, f"s3://raw/{n}.jpg", False), Item(n, f"s3://raw/{n}.jpg", meta)) for n, meta in enumerate(metas)
    ]
    return list(with_meta(pairs)), meta_keys(item for _, item in pairs)


def test_csv_has_a_column_per_key_of_the_metadata(tmp_path):
    outcomes, keys = with_metadata(META)
    assert keys == ["lr", "seed", "note", "tags"]
    assert export(outcomes, tmp_path / "out.csv", keys=keys) == ExportResult(5, 0)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["index"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert [row["meta.lr"] for row in rows] == ["0.1", "", "", "", ""]
    assert (rows[2]["meta.note"], rows[3]["meta.tags"]) == ('a "b",\nc', '["x", {"y": true}]')


def test_a_key_may_be_called_like_a_figure(tmp_path):
    outcomes, keys = with_metadata([{"status": "mine", "meta.status": "too"}])
    export(outcomes, tmp_path / "out.csv", keys=keys)
    header, row = csv.reader((tmp_path / "out.csv").open(newline=""))
    assert (
        dict(zip(header, row, strict=True)).items()
        >= {
            "status": "succeeded",
            "meta.status": "mine",
            "meta.meta.status": "too",
        }.items()
    )


def test_too_many_keys_are_one_column(tmp_path):
    outcomes, keys = with_metadata([{f"k{n}": n} for n in range(module.MOST_KEYS + 1)])
    assert keys is None
    export(outcomes, tmp_path / "out.csv", keys=keys)
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [json.loads(row["meta"]) for row in csv.DictReader(file)] == [outcome.meta for outcome in outcomes]


def test_cells_that_a_spreadsheet_may_run_stay_as_they_are_and_are_counted(tmp_path):
    texts = ["=1+1", "+cmd", "-rm", "@SUM(A1)", "\tx", "-12.5", "+3e4", "1=1", ""]
    outcomes, keys = with_metadata([{"text": text} for text in texts])
    assert export(outcomes, tmp_path / "out.csv", keys=keys).formulas == 5
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["meta.text"] for row in csv.DictReader(file)] == texts


def test_texts_that_no_encoding_has(tmp_path):
    outcomes, keys = with_metadata([{"a": "\ud800 \0"}])
    for name in ("out.csv", "out.jsonl"):
        assert export(outcomes, tmp_path / name, keys=keys).count == 1


def test_of_a_job_without_outcomes(tmp_path):
    assert export(iter(()), tmp_path / "out.jsonl").count == 0
    assert (tmp_path / "out.jsonl").read_text() == ""


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("out.txt", None, "format is 'txt'; it must be jsonl, csv or parquet"),
        ("no/out.jsonl", None, "No such file or directory"),
        ("out", "xml", "format is 'xml'"),
    ],
)
def test_what_cannot_be_written(tmp_path, name, form, words):
    with pytest.raises(CallerError, match=words):
        export(iter(SOME), tmp_path / name, form)
