"""Metrics: found in what items print, bounded in time and size, read back per item.

What this cannot prove: that a cloud's store keeps up with a fleet; the number of requests is counted here.
"""

import csv
import json
import math
import re
from collections import Counter, deque
from typing import Any, cast

import pytest

from tests.unit.client_fakes import pipeline
from tidemill.cli.commands.metrics import print_values
from tidemill.client.report.page import page_of, redacted
from tidemill.client.results.metrics import ranked
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError, DamagedError
from tidemill.metrics import MAX_METRICS, MetricPattern, MetricValue, encode_values, parse_values
from tidemill.store import Store
from tidemill.worker.chunks import metrics
from tidemill.worker.chunks.metrics import MAX_POINTS, MetricLog, MetricWatch, Series
from tidemill.worker.output import ItemOutput

LOSS = MetricPattern.of("loss", r"(?:step (?P<step>\d+) )?loss: (\S+)")


def watch(*patterns):
    found = deque()
    return MetricWatch(patterns or [LOSS], 3, found, {"job": "tiles-00000000"}), found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("step 7 loss: 1e-3", (7, 0.001)),
        ("val_loss: 2 loss: 3", (None, 2.0)),
        ("loss: inf", (None, math.inf)),
        ("loss: soon", None),
        ("lass: 3", None),
    ],
)
def test_a_number_and_its_step_are_found_in_a_line(line, expected):
    assert LOSS.find(line, 1) == expected


def test_a_group_named_value_is_the_number():
    assert MetricPattern.of("x", r"(a|b)=(?P<value>\d+)").find("b=7", 1) == (None, 7.0)


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"loss": "loss: [0-9.]+"}, "metrics.loss"),
        ({"loss": r"(?P<step>\d+) loss"}, "metrics.loss"),
        ({"loss": "loss: ("}, "metrics.loss"),
        ({"loss": "((a{999}){999})"}, "metrics.loss"),
        ({"loss": f"(x{'|y' * 1000})"}, "metrics.loss"),
        ({"a b": "(x)"}, "metric"),
        ({f"m{n}": "(x)" for n in range(MAX_METRICS + 1)}, "metrics"),
    ],
    ids=["no group", "only a step", "invalid", "many repeats", "too long", "a name with a space", "too many"],
)
def test_an_expression_that_cannot_work_is_refused_before_anything_is_made(asked, what):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    with pytest.raises(CallerError) as raised:
        target.train(["p"], queue="cpu", metrics=asked)
    assert raised.value.what == what
    assert not list(target.store.list("jobs"))


def test_lines_of_both_streams_and_of_progress_bars_are_searched():
    watched, found = watch()
    output = ItemOutput({"job": "tiles-00000000"}, watched)
    output.begin(2)
    output.feed("stdout", b"loss: 1\nlo")
    output.feed("stderr", b"loss: 2\rloss: 3\r\n")
    output.feed("stdout", b"ss: 4")
    output.end()
    assert [(one.item, one.attempt, one.value) for one in found] == [(3, 2, 1.0), (3, 2, 2.0), (3, 2, 3.0), (3, 2, 4.0)]


def test_a_catastrophic_expression_is_given_up_and_the_others_go_on(monkeypatch, capsys):
    # However busy this machine is, there is time for the other expression.
    monkeypatch.setattr(metrics, "BURST_SECONDS", 60)
    slow = MetricPattern.of("slow", "((x+x+)+)y")
    with pytest.raises(TimeoutError):
        slow.find("x" * 5000, 0.01)
    watched, found = watch(slow, LOSS)
    for _ in range(100):
        watched.look(["x" * 5000, "loss: 1"], 1)
    assert len(found) == 100
    said = json.loads(capsys.readouterr().out)
    assert (said["metric"], said["item"], said["job"]) == ("slow", 3, "tiles-00000000")


def test_the_output_waits_for_a_bounded_share_of_the_time(patch_time, monkeypatch, capsys):
    """A clock that only searching moves: what is searched is the burst and 5 % of the time that passes."""
    clock = [0.0]
    patch_time(monotonic=lambda: clock[0])
    watched, found = watch()
    search = watched._search

    def slowly(line, attempt):
        clock[0] += 0.001
        search(line, attempt)

    monkeypatch.setattr(watched, "_search", slowly)
    lines = [f"loss: {n}" for n in range(1000)]
    for _ in range(100):
        clock[0] += 0.1
        watched.look(lines, 1)
    searched = len(found) * 0.001
    assert searched <= metrics.BURST_SECONDS + metrics.SHARE * clock[0] + 0.01
    watched.end(1)
    assert found[-metrics.KEPT_LINES].value == 999
    assert "lines were not searched" in capsys.readouterr().out


def test_a_series_is_thinned_and_keeps_its_extremes():
    series = Series()
    values = [float("nan"), *(math.sin(n / 7) for n in range(5000)), 99.0, 1.0]
    for n, value in enumerate(values):
        series.add(MetricValue(float(n), 0, 1, n, "loss", value))
        while len(series) > 100:
            series.thin()
    kept = series.values
    assert len(kept) <= 103
    assert [one.at for one in kept] == sorted(one.at for one in kept)
    assert max(one.value for one in kept[1:]) == 99.0
    assert min(one.value for one in kept[1:]) == min(values[1:])
    assert kept[-1].value == 1.0


class Puts:
    """Stands for a chunk's ledger: counts what is written."""

    def __init__(self):
        self.written = []

    def write_metrics(self, attempt, data):
        self.written.append(data)


class Lease:
    id = "a1-0"


def test_a_chunk_writes_one_object_and_only_when_there_is_more(patch_time):
    # The search of a busy machine would take more than its share of the time.
    patch_time(monotonic=lambda: 0.0)
    puts, lease, chunk = cast(Any, Puts()), cast(Any, Lease()), cast(Any, None)
    log = MetricLog(puts, lease, [LOSS], pace=60)
    log.on_tick(chunk)
    assert puts.written == []
    for item in range(3):
        log.watch(item, {}).look([f"loss: {n}" for n in range(3000)], 1)
    log.on_tick(chunk)
    log.on_tick(chunk)
    log.on_commit()
    assert len(puts.written) == 1
    values = list(parse_values(puts.written[0], "it"))
    assert len(values) <= MAX_POINTS + 9
    assert len(puts.written[0]) < 512 * 1024
    assert {(one.item, one.value) for one in values} >= {(n, v) for n in range(3) for v in (0.0, 2999.0)}


def test_what_is_stored_is_json_even_of_a_loss_that_diverges():
    values = [MetricValue(1.5, 0, 1, None, "loss", value) for value in (0.1, math.inf, math.nan)]
    data = encode_values(values)
    assert [json.loads(line)["value"] for line in data.splitlines()] == [0.1, "inf", "nan"]
    assert [str(one.value) for one in parse_values(data, "it")] == ["0.1", "inf", "nan"]
    with pytest.raises(DamagedError, match="it is damaged"):
        list(parse_values(b'{"at": 1}\n', "it"))


def job_with_values(state=False):
    """A job of three items: one was tried twice, one diverges, one has printed nothing."""
    target, _ = pipeline(max_spec=SPEC_VERSION)
    job = target.train(["p"], {"lr": [1, 2, 3]}, queue="cpu", metrics={"loss": "(x)"}, state=state)
    rows = {
        "a1": [(0, 1, 0.1), (1, 1, 5.0)],
        "a2": [(0, 1, 0.2), (0, 2, 0.9), (0, 2, 0.4), (0, 2, 0.6)],
        "a3": [(1, 1, 3.0), (1, 1, math.nan)],
    }
    for n, (attempt, values) in enumerate(rows.items()):
        for item in {item for item, *_ in values}:
            found = [MetricValue(n + a / 10, i, a, 7, "loss", v) for i, a, v in values if i == item]
            job._watched.ledger.chunk(0, item).write_metrics(attempt, encode_values(found))
    return job


def test_metrics_of_the_newest_attempt_are_summed_up_per_item():
    one, two = job_with_values().metrics()
    assert (one.uri, one.meta) == ("lr=1", {"lr": 1})
    loss = one.metrics["loss"]
    assert (loss.last, loss.lowest, loss.highest, loss.values, loss.lowest_step) == (0.6, 0.4, 0.9, 3, 7)
    assert (two.metrics["loss"].last, two.metrics["loss"].lowest) == (None, 3.0)


def test_with_state_an_attempt_continues_the_one_before():
    loss = next(job_with_values(state=True).metrics()).metrics["loss"]
    assert (loss.last, loss.lowest, loss.highest, loss.values) == (0.6, 0.1, 0.9, 5)


def test_the_best_item_comes_first():
    job = job_with_values()
    assert [item.index for item in ranked(job.metrics(), "loss", False)] == [0, 1]
    assert [item.index for item in ranked(job.metrics(), "loss", True)] == [1, 0]
    assert ranked(job.metrics(), "other", True) == []


def test_reading_takes_a_listing_per_round_and_few_requests_per_attempt(monkeypatch):
    job, asked = job_with_values(), Counter()
    for name in ("list", "get", "get_range"):
        real = getattr(Store, name)
        monkeypatch.setattr(
            Store, name, lambda self, *a, real=real, name=name: (asked.update([name]), real(self, *a))[1]
        )
    list(job.metrics())
    # Of two chunks with three attempts; a listing and a get are for the rounds.
    assert asked == {"list": 2, "get": 1 + 4, "get_range": 2 * 2}


def test_a_job_without_metrics_says_how_to_have_some():
    target, _ = pipeline(max_spec=SPEC_VERSION)
    with pytest.raises(CallerError, match="keeps no metrics"):
        list(target.train(["p"], queue="cpu").metrics())


def test_the_report_draws_the_values_of_the_newest_attempt():
    job = job_with_values()
    [loss] = job.report().metrics
    assert (loss.name, loss.items, loss.steps) == ("loss", 2, True)
    assert [(one.item, one.points) for one in loss.curves] == [
        (0, [(7.0, 0.9), (7.0, 0.4), (7.0, 0.6)]),
        (1, [(7.0, 3.0)]),
    ]
    page = page_of(job.report())
    assert page.count('<path class="c s') == 2
    assert "item 0: lr=1" in page
    assert "lr=1" not in page_of(redacted(job.report())).partition("Metric loss")[2]


def test_of_many_items_a_few_are_drawn_and_whatever_they_print():
    target, _ = pipeline(max_spec=SPEC_VERSION)
    job = target.train(["p"], {"n": list(range(30))}, queue="cpu", metrics={"a": "(x)", "b": "(x)"}, state=False)
    odd = [1e308, -1e308, 5e-324, 0.0, math.inf, -7.5]
    for item in range(30):
        found = [MetricValue(n, item, 1, 10**400 + n, "a", value) for n, value in enumerate(odd)]
        found += [MetricValue(n, item, 1, None, "b", item * n) for n in range(1000)]
        job._watched.ledger.chunk(0, item).write_metrics("a1", encode_values(found))
    one, two = job.report().metrics
    assert {point[1] for curve in one.curves for point in curve.points} == {5e-324, 0.0, -7.5}
    assert (two.items, two.steps, [curve.item for curve in two.curves]) == (30, False, [0, 5, 10, 14, 19, 24, 29])
    assert all(len(curve.points) == 201 and curve.points[-1] == (1000, 999 * curve.item) for curve in two.curves)
    drawn = re.findall(r'<path class="c s\d" d="([^"]+)"', page_of(job.report()))
    places = [float(number) for path in drawn for number in re.findall(r"-?[\d.]+", path)]
    assert len(drawn) == 14
    assert 0 <= min(places) < max(places) <= 400


def test_csv_has_every_value(capsys):
    print_values(job_with_values().metrics(values=True))
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(row["item"], row["uri"], row["metric"], row["step"], row["value"]) for row in rows] == [
        ("0", "lr=1", "loss", "7", "0.9"),
        ("0", "lr=1", "loss", "7", "0.4"),
        ("0", "lr=1", "loss", "7", "0.6"),
        ("1", "lr=2", "loss", "7", "3.0"),
        ("1", "lr=2", "loss", "7", "nan"),
    ]
    assert rows[0]["at"].startswith("1970-01-01T00:00:01")
