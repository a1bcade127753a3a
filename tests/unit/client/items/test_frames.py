"""DataFrames as items, and outcomes as a DataFrame. Not proved here: polars, whose frames a stand-in plays."""

import sys
from datetime import datetime

import numpy
import pytest

from tests.unit.client_fakes import outcome, pipeline, uris
from tidemill.client.items.frames import FrameItems
from tidemill.errors import CallerError
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk

pandas = pytest.importorskip("pandas", reason="it is in requirements.txt")


def items(frame, column=None):
    (block,) = FrameItems(frame, column)
    return list(zip(block.uris, block.metas or [None] * len(block.uris), strict=True))


def test_one_column_is_the_item_and_the_others_are_its_metadata():
    frame = pandas.DataFrame(
        {
            "angle": [30, 60],
            "uri": ["a", "b"],
            "light": ["day", None],
            "score": [0.5, float("nan")],
            "seen": pandas.to_datetime(["2026-11-22", None]),
            "count": pandas.array([1, None], dtype="Int64"),
            "fine": [True, False],
            "weight": numpy.array([0.25, 0.5], dtype="float32"),
        }
    )
    first = {"angle": 30, "light": "day", "score": 0.5, "seen": "2026-11-22T00:00:00", "count": 1, "fine": True}
    second = {"angle": 60, "light": None, "score": None, "seen": None, "count": None, "fine": False}
    assert items(frame) == [("a", first | {"weight": 0.25}), ("b", second | {"weight": 0.5})]
    assert items(frame[["uri"]]) == [("a", None), ("b", None)]
    assert items(frame[["light"]].head(1)) == [("day", None)]


def test_a_frame_of_polars():
    class Polars:
        columns = ("path", "at")

        def iter_rows(self):
            return iter([("a", datetime(2026, 11, 22)), ("b", None)])

    assert items(Polars(), "path") == [("a", {"at": "2026-11-22T00:00:00"}), ("b", {"at": None})]


@pytest.mark.parametrize(
    ("frame", "column", "said"),
    [
        (
            pandas.DataFrame({"a": ["x"], "b": ["y"]}),
            None,
            "which column is the item? Its columns: a, b",
        ),
        (pandas.DataFrame({"a": ["x"]}), "c", "the DataFrame has no column 'c'. Its columns: a"),
        (pandas.DataFrame([["x", "y"]], columns=["a", "a"]), "a", "the DataFrame has the column 'a' twice"),
        (pandas.DataFrame({"uri": ["x", 7]}), None, "the DataFrame, row 1 is 7; an item is a text"),
        (pandas.DataFrame({"uri": ["x"], "a": [{1, 2}]}), None, "the DataFrame, row 0: its metadata cannot be written"),
        (pandas.DataFrame({"uri": []}), None, "There are no items in the DataFrame"),
    ],
)
def test_frames_that_hold_no_items(frame, column, said):
    target, _ = pipeline()
    with pytest.raises(CallerError) as error:
        target.submit(["cat", "{uri}"], frame, queue="cpu", items_column=column)
    assert said in str(error.value)
    assert error.value.what == "items"
    assert not list(target.store.list("jobs"))


def finished(metas):
    """A job whose second item has failed."""
    target, _ = pipeline()
    frame = pandas.DataFrame({"uri": uris(len(metas)), **{key: [meta[key] for meta in metas] for key in metas[0]}})
    job = target.submit(["cat", "{uri}"], frame, queue="cpu")
    for chunk in range(job.spec.chunks_total):
        outcomes = [outcome(i.index, i.uri, i.index == 1) for i in read_chunk(target.store, job.id, chunk)]
        Ledger(target.store, job.id).chunk(0, chunk).commit("a", outcomes)
    return job


def test_outcomes_as_a_frame_with_the_metadata_that_came_as_one():
    job = finished([{"angle": 30, "status": "day"}, {"angle": 60, "status": "night"}, {"angle": 90, "status": "day"}])
    frame = job.to_pandas()
    assert frame.index.name == "item"
    assert frame["status"].tolist() == ["succeeded", "failed", "succeeded"]
    assert frame["meta.status"].tolist() == ["day", "night", "day"]
    assert frame["exit_code"].tolist() == [0, 1, 0]
    assert frame[frame["meta.angle"] > 40].index.tolist() == [1, 2]
    assert frame.loc[1, "error"] == "ValueError: no"
    assert frame["error"].isna().tolist() == [True, False, True]
    assert job.to_pandas(failed_only=True)["uri"].tolist() == ["s3://raw/1.jpg"]
    assert [one.meta for one in job.outcomes()][2] == {"angle": 90, "status": "day"}


def test_a_job_without_outcomes_has_the_same_columns():
    target, _ = pipeline()
    empty = target.submit(["cat", "{uri}"], uris(2), queue="cpu").to_pandas()
    assert (len(empty), empty["wall_seconds"].dtype) == (0, numpy.dtype("float64"))


def test_without_pandas_it_is_a_clear_error(monkeypatch):
    job = finished([{"angle": 30}, {"angle": 60}])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CallerError) as error:
        job.to_pandas()
    assert (error.value.what, error.value.fix) == ("pandas", "pip install 'tidemill[pandas]'")
