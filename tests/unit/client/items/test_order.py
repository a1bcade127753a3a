"""Items in the order of how long each is expected to take, and chunks of equal weight."""

from itertools import pairwise

import pytest
from click import Context
from hypothesis import given
from hypothesis import strategies as st

from tests.stored import read_items
from tests.unit.client_fakes import pipeline, uris
from tidemill.cli.commands.submit import command, show_preview
from tidemill.client.items.open_items import open_items
from tidemill.client.items.order import order_of, weigher
from tidemill.client.items.spool import Spool
from tidemill.client.plan.chunks import LIGHTEST, Plan, of_equal_weight, plan_chunks
from tidemill.errors import CallerError
from tidemill.job import MAX_CHUNKS, Item
from tidemill.ledger import Ledger, Outcome
from tidemill.store import Store, Stores


def ordered(items, by, store, **how):
    """The URIs of a job's items in the order in which they are sent."""
    spool = Spool(None, weigher(by, store)).fill(open_items(items, stores=Stores(), **how))
    spool.reorder(order_of(spool.weights))
    return [item.uri for item in spool.items()]


@pytest.fixture
def store(tmp_path):
    return Store.open(f"file://{tmp_path}/store")


def test_files_go_by_their_sizes(tmp_path, store):
    for name, size in {"a": 1, "b": 300, "c": 0, "d": 20}.items():
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"x" * size)
    assert [uri[-1] for uri in ordered(tmp_path / "in", "size", store)] == list("bdac")


def test_objects_go_by_the_sizes_that_a_listing_tells(tmp_path, store, monkeypatch):
    for name, size in {"a": 1, "b": 300, "c": 20}.items():
        store.put(f"in/{name}", b"x" * size)
    monkeypatch.setattr(Store, "size", None)
    assert [uri[-1] for uri in ordered(f"{store.uri}/in/", "size", store)] == list("bca")


def test_a_column_of_numbers_keeps_the_order_of_equal_ones(tmp_path, store):
    (tmp_path / "list.csv").write_text("uri,px\na,5\nb,7.5\nc,5\nd,1e3\ne,0\n")
    assert ordered(tmp_path / "list.csv", "px", store) == list("dbace")


@pytest.mark.parametrize("value", ["much", "-1", "nan", "inf", ""])
def test_what_is_not_a_number_names_its_place(tmp_path, store, value):
    (tmp_path / "list.csv").write_text(f"uri,px\na,5\nb,{value}\n")
    with pytest.raises(CallerError, match="line 3") as raised:
        ordered(tmp_path / "list.csv", "px", store)
    assert (raised.value.what, raised.value.value) == ("longest_first", "px")


@pytest.mark.parametrize("items", [["s3://a/b"], [Item(0, "s3://a/b", {"size": 3})]])
def test_a_list_of_objects_has_no_sizes(store, items):
    with pytest.raises(CallerError, match="no listing tells the size") as raised:
        ordered(items, "size", store)
    assert raised.value.what == "longest_first"


def finished(seconds):
    """A pipeline with an ended job whose items took so many seconds."""
    made, _ = pipeline()
    job = made.submit(["work", "{uri}"], list(seconds), queue="cpu", name="like", chunk_size=len(seconds))
    outcomes = [
        Outcome(index=index, uri=uri, status="succeeded", wall_seconds=each)
        for index, (uri, each) in enumerate(seconds.items())
    ]
    Ledger(made.store, job.id).chunk(0, 0).commit("attempt", outcomes)
    return made


def test_another_job_tells_by_uri_by_name_or_by_its_mean():
    made = finished({"s3://a/short": 1.0, "s3://a/long": 50.0, "s3://a/x": 9.0})
    items = ["s3://a/short", "s3://new/unknown", "s3://b/long", "s3://a/x"]
    assert ordered(items, "job://like", made.store) == [
        "s3://b/long",
        "s3://new/unknown",
        "s3://a/x",
        "s3://a/short",
    ]


def test_a_job_that_runs_or_does_not_exist_tells_nothing():
    made, _ = pipeline()
    made.submit(["work", "{uri}"], uris(3), queue="cpu", name="runs")
    for by in ("job://runs", "job://other"):
        with pytest.raises(CallerError):
            made.submit(["work", "{uri}"], uris(3), queue="cpu", name="next", longest_first=by)
    assert not list(made.store.list("jobs/next"))


def test_a_submit_may_be_repeated_and_its_chunks_are_equally_heavy(tmp_path):
    made, _ = pipeline()
    items = [Item(number, f"s3://a/{number}", {"s": number**2}) for number in range(500)]
    jobs = [made.submit(["work", "{uri}"], items, queue="cpu", name="heavy", longest_first="s") for _ in range(2)]
    assert jobs[0].id == jobs[1].id
    assert [item.meta for item in read_items(made.store, jobs[0].id)] == [{"s": n**2} for n in reversed(range(500))]


def test_with_a_chunk_size_chunks_are_equally_many():
    made, _ = pipeline()
    items = [Item(number, f"s3://a/{number}", {"s": number}) for number in range(100)]
    job = made.submit(["work", "{uri}"], items, queue="cpu", chunk_size=10, longest_first="s")
    assert (job.spec.chunk_size, job.spec.chunks_total) == (10, 10)


def test_what_it_cannot_be_combined_with():
    made, _ = pipeline(max_spec=4)
    with pytest.raises(CallerError, match="max_parallel"):
        made.submit(["work", "{uri}"], uris(3), queue="cpu", max_parallel=2, longest_first="size")
    with pytest.raises(CallerError, match="order of the values"):
        made.map("os.path:basename", uris(3), queue="cpu", longest_first="size")


def test_weights_that_are_all_0_leave_the_plan():
    for count in (10_000, 60_000):
        plan = plan_chunks(count, 1000, 1.0, None)
        assert of_equal_weight(plan, [0.0] * count) == plan


def test_a_rehearsal_says_that_chunks_differ(capsys):
    made, _ = pipeline()
    items = [Item(number, f"s3://a/{number}", {"s": number}) for number in range(100)]
    found = made.preview(["work", "{uri}"], items, queue="cpu", longest_first="s", item_seconds=20)
    with Context(command):
        show_preview(found, as_json=False)
    assert f"100 in {found.chunks} chunks of up to {found.chunk_size}, all expected" in capsys.readouterr().out


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=300).map(lambda found: sorted(found, reverse=True)).filter(any),
    st.integers(1, 40),
)
def test_chunks_hold_every_item_once_and_none_is_heavy_or_long(weights, size):
    plan = of_equal_weight(Plan(len(weights), size), weights)
    assert sum(plan.sizes()) == len(weights)
    assert plan.chunks == len(plan.cut) <= MAX_CHUNKS
    assert max(plan.cut) == plan.chunk_size <= LIGHTEST * size
    each = sum(weights) / Plan(len(weights), size).chunks
    ends = [sum(plan.cut[:count]) for count in range(plan.chunks + 1)]
    assert all(sum(weights[a:b]) <= each * (1 + 1e-9) + weights[a] for a, b in pairwise(ends))
