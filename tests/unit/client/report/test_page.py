"""Reports of jobs in memory. What this cannot prove: how browsers draw them, and that machines say the truth."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from tests.unit.hostile import HOSTILE
from tests.unit.report_jobs import MACHINES, made_job, plain
from tidemill import layout
from tidemill.cli import main
from tidemill.client import site as site_module
from tidemill.client.report import panels, records, totals
from tidemill.client.report.failures import group_failures
from tidemill.client.report.model import JobReport
from tidemill.client.report.page import POLICY, page_of, redacted
from tidemill.client.report.shown import ShownReport
from tidemill.client.report.style import STYLE
from tidemill.client.report.svg import log_ticks
from tidemill.clouds.emulated import emulated
from tidemill.errors import CallerError, DamagedError, StoreDeniedError
from tidemill.ledger.documents import UnreadableError
from tidemill.prices import brief
from tidemill.store import Store, read_heads

VOID = {"meta", "path", "rect", "br"}


class Parsed(HTMLParser):
    """A page as a browser reads it: what could load or run something, and what is missing for a screen reader."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.open: list[str] = []
        self.unnamed = self.pictures = 0
        self.text: list[str] = []
        self._named: set[str] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self.loads += [f"{tag} {name}" for name in given if name in ("src", "href", "srcset", "action", "data")]
        self.loads += [f"{tag} {name}" for name in given if name.startswith("on")]
        self.loads += [value for value in given.values() if value and "url(" in value and "url(#" not in value]
        if tag == "svg" and given.get("role") == "img":
            self.pictures += 1
            self._named = set()
        if tag in ("title", "desc"):
            self._named.add(tag)
        if tag not in VOID or tag == "rect":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg" and self.pictures and self._named and not {"title", "desc"} <= self._named:
            self.unnamed += 1
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def check_page(page: str) -> Parsed:
    """It loads and runs nothing, is not too large, and names its pictures."""
    parsed = Parsed(page)
    assert parsed.loads == []
    assert "script" not in parsed.tags
    assert set(parsed.tags).isdisjoint({"iframe", "img", "object", "embed", "link", "base", "form", "a"})
    assert POLICY in page
    assert len(page.encode()) <= 1_000_000
    assert parsed.unnamed == 0
    assert not re.search(r"https?://|@import", page.partition("<style>")[2].partition("</style>")[0])
    return parsed


@pytest.fixture(scope="module")
def whole() -> tuple[JobReport, object]:
    made = made_job(2400, 24, reclaims=5, item_seconds=11.0)
    return made.job.report(), made


def test_counts_and_sums_are_exact(whole):
    report, made = whole
    assert (report.items, report.succeeded, report.failed, report.remaining) == (2400, 2352, 48, 0)
    assert (report.state, report.reclaims, report.executions, report.records) == ("failed", 5, 2400, 100)
    assert sum(report.timeline.succeeded) == 2352
    assert sum(report.timeline.failed) == 48
    assert sum(report.timeline.reclaims) == 5
    assert sum(place.items for place in report.places) == 2400
    assert sum(place.machines for place in report.places) == len(MACHINES)
    assert report.wall.mean == pytest.approx(sum(made.walls) / 2400, abs=0.001)
    assert report.memory_mib.max == max(made.memories)
    assert sum(items for _, _, items in report.wall.bars) == report.wall.items == 2400
    held = sum(value * report.timeline.step_seconds for row in report.timeline.slots.values() for value in row)
    assert held == pytest.approx(report.slot_use.held * 3600, rel=0.01)
    assert report.tries == [2352, 0, 48]
    assert report.slowest[0].seconds == max(made.walls)


def test_quantiles_are_within_two_percent(whole):
    report, made = whole
    for values, found in ((made.walls, report.wall), (made.memories, report.memory_mib)):
        ranked = sorted(values)
        for part, value in ((0.5, found.p50), (0.9, found.p90), (0.99, found.p99)):
            exact = ranked[math.ceil(part * len(ranked)) - 1]
            assert abs(value - exact) <= 0.02 * exact


def test_groups_are_those_of_failures(whole):
    report, made = whole
    told = {group.id: group.count for group in group_failures(made.job.results(failed_only=True))}
    assert {group.id: group.count for group in report.failing.groups} == told
    first = report.failing.groups[0]
    assert report.created_at < first.first_at <= first.last_at
    assert "us-west-2" in first.places[0]


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("2026-11-21T23:00:05.123+00:00", "2026-11-22T01:30:00+00:00", "2026-11-21 23:00:05 to 2026-11-22 01:30:00"),
        ("2026-11-21T09:00:05+00:00", "2026-11-21T17:30:00+00:00", "2026-11-21 09:00:05 to 17:30:00"),
        ("2026-11-21T09:00:05+00:00", "2026-11-21T09:00:05.900+00:00", "2026-11-21 09:00:05"),
        (None, None, ""),
    ],
)
def test_failures_are_told_with_their_dates(first, last, said):
    assert panels._span(first, last) == said


def test_cost_stands_beside_the_estimate(whole):
    report, _ = whole
    assert report.estimated.item_seconds == 11.0
    assert report.cost.low <= report.cost.high < report.cost.on_demand
    assert report.cost.unpriced_hours == 0
    assert sum(line.slot_hours for line in report.cost.lines) == pytest.approx(report.slot_use.held, rel=0.001)
    page = page_of(report)
    assert f"at prices of {report.cost.as_of} or later from {brief(report.cost.sources)}, with" in page
    assert "estimated at the submit" in page
    assert "Saved on Spot" in page


def test_the_page_loads_nothing_and_names_its_pictures(whole):
    parsed = check_page(page_of(whole[0]))
    assert parsed.pictures >= 8
    assert parsed.tags.count("table") >= parsed.pictures
    assert not parsed.open or parsed.open == ["html"]


def test_a_job_that_runs_and_one_that_has_not_begun():
    report = made_job(480, 24, done=0.5).job.report()
    assert (report.state, report.ended_at, report.remaining) == ("running", None, 240)
    assert "as of" in page_of(report)
    check_page(page_of(report))
    report = made_job(48, 24, done=0).job.report()
    assert (report.records, report.wall, report.timeline, report.cost, report.advice) == (0, None, None, None, [])
    check_page(page_of(report))


def test_a_digest_of_a_later_version_is_refused():
    made = made_job(48, 24)
    store, name = made.job._watched.site.store, layout.done(made.job.id, 0, 1)
    store.put(name, store.get(name).replace(b'"digest":{"v":1,', b'"digest":{"v":2,'))
    with pytest.raises(UnreadableError, match="version 2"):
        made.job.report()


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_is_readable_in_every_scheme(scheme):
    roots = re.findall(r":root\{([^}]*)\}", STYLE)
    values = dict(re.findall(r"--(\w+):(#\w+)", roots[0]))
    values |= dict(re.findall(r"--(\w+):(#\w+)", roots[{"light": 0, "dark": 1, "print": 2}[scheme]]))
    for ink in ("ink", "soft", "link", "bad", "good"):
        for paper in ("page", "card"):
            lighter, darker = sorted((_light(values[ink]), _light(values[paper])), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (ink, paper)


def _light(colour):
    """Relative luminance: https://www.w3.org/TR/WCAG21/#dfn-relative-luminance."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_head_that_is_longer_than_expected_is_read_again(monkeypatch):
    monkeypatch.setattr(records, "HEAD_BYTES", 10)
    monkeypatch.setattr(records, "BYTES_PER_ITEM", 1)
    assert made_job(240, 24).job.report().executions == 240


def test_heads_come_once_each_and_what_is_gone_is_left_out():
    store = Store.open("memory://")
    names = [f"n/{n}" for n in range(500)]
    for n, name in enumerate(names):
        if n != 7:
            store.put(name, b"%d\n" % n + b"x" * (n % 40))
    found: dict[int, bytes] = {}
    read_heads(store, names, 5, lambda position, data: found.update({position: found.get(position, b"") + data}))
    assert sorted(found) == [n for n in range(500) if n != 7]
    assert all(data == (b"%d\n" % n + b"x" * (n % 40))[:5] for n, data in found.items())


def test_what_ends_the_reading_of_heads_is_raised(monkeypatch):
    store = Store.open("memory://")
    for n in range(300):
        store.put(f"n/{n}", b"x")

    def refused(*_: object) -> bytes:
        raise StoreDeniedError("GET of n/0 was refused: AccessDenied.")

    with pytest.raises(KeyError):
        read_heads(store, [f"n/{n}" for n in range(300)], 5, lambda position, data: {}[position])
    monkeypatch.setattr(store, "get_range", refused)
    with pytest.raises(StoreDeniedError):
        read_heads(store, [f"n/{n}" for n in range(300)], 5, lambda position, data: None)


def test_a_damaged_record_is_named():
    made = made_job(48, 24)
    name = layout.done(made.job.id, 0, 1)
    made.job._watched.site.store.put(name, b'{"chunk": 1, nonsense\n')
    with pytest.raises(DamagedError, match=name):
        made.job.report()


def test_many_failing_chunks_are_sampled_and_the_report_says_so(monkeypatch):
    monkeypatch.setattr(records, "FAILING_CHUNKS", 10)
    made = made_job(2400, 24)
    report = made.job.report()
    assert (report.failing.chunks_read, report.failing.chunks) == (10, 48)
    assert sum(group.count for group in report.failing.groups) == pytest.approx(report.failed, abs=2)
    assert "scaled up from 10 of 48 chunks" in page_of(report)
    everything = made.job.report(everything=True)
    assert everything.failing.chunks_read == 48


def test_memory_is_bounded_by_machines_and_places(monkeypatch):
    monkeypatch.setattr(totals, "MOST_MACHINES", 5)
    monkeypatch.setattr(totals, "MOST_PLACES", 2)
    report = made_job(2400, 24).job.report()
    assert report.timeline is not None
    assert report.timeline.machines is None
    assert sum(place.items for place in report.places) == 2400
    assert len(report.places) <= 3


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_texts_stay_texts(number):
    text = HOSTILE[number]

    def failing(index, rng):
        made = plain(index, rng)
        made.uri, made.status, made.reason, made.exit_code, made.error = text, "failed", "exit", 1, text
        return made

    report = made_job(4, 2, outcome=failing).job.report()
    report = replace(report, command=[text], user=text, note=text, name=text, versions=[text])
    shown = page_of(report)
    parsed = check_page(shown)
    assert not parsed.open or parsed.open == ["html"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown)


def test_what_is_redacted_is_gone(whole):
    page = page_of(redacted(whole[0]))
    for secret in ("tiles.py", "ada", "ValueError", "s3://"):
        assert secret not in page
    assert "286fd987c2" not in page
    assert all(group.id in page for group in whole[0].failing.groups)


def test_an_emulated_cloud_and_this_machine_are_named(whole, monkeypatch):
    report = whole[0]
    assert "localcloud" not in page_of(report)
    assert "Nothing was paid" in page_of(replace(report, emulated=True, cost=replace(report.cost, emulated=True)))
    assert "without cost" in page_of(replace(report, cloud="local", cost=None))
    for name, value, found in (
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000", True),
        ("AWS_ENDPOINT_URL", "https://batch.us-west-2.amazonaws.com", False),
        ("PUBSUB_EMULATOR_HOST", "localhost:8085", True),
        ("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE", "http://localhost:1/", True),
    ):
        with monkeypatch.context() as patch:
            for known in ("AWS_ENDPOINT_URL", "PUBSUB_EMULATOR_HOST"):
                patch.delenv(known, raising=False)
            patch.setenv(name, value)
            assert emulated() is found


class TestCommand:
    @pytest.fixture
    def job(self, tmp_path, monkeypatch):
        made = made_job(48, 24, uri=f"file://{tmp_path}/store")
        descriptor = made.job._watched.site.descriptor
        (tmp_path / "store" / "pipeline.json").write_text(descriptor.model_dump_json())
        monkeypatch.setattr(site_module, "open_backend", lambda *_: made.backend)
        monkeypatch.setenv("TIDEMILL_PIPELINE", f"file://{tmp_path}/store/pipeline.json")
        monkeypatch.chdir(tmp_path)
        return made.job.id

    def test_it_writes_a_file_named_after_the_job(self, job, tmp_path, capsys):
        assert main(["report", "tiles"]) == 0
        assert capsys.readouterr().out == f"{job}.html\n"
        check_page((tmp_path / f"{job}.html").read_text())

    def test_it_writes_to_a_uri(self, job, tmp_path, capsys):
        place = f"file://{tmp_path}/store/out/tiles.html"
        assert main(["report", job, "-o", place, "--redact"]) == 0
        assert capsys.readouterr().out == f"{place}\n"
        assert "ValueError" not in (tmp_path / "store" / "out" / "tiles.html").read_text()

    def test_json_is_the_same_report(self, job, capsys):
        assert main(["report", job, "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["job"], said["succeeded"], said["failed"]) == (job, 47, 1)
        assert said["failing"]["groups"][0]["message"].startswith("ValueError")
        assert main(["report", job, "--json", "--redact"]) == 0
        assert "ValueError" not in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--json", "-o", "x.html"], "leave --output and --open out"),
            (["--open", "-o", "s3://b/x.html"], "--open shows a file of this machine"),
            (["-o", "ftp://b/x.html"], "s3://"),
            (["-o", "no/such/folder/x.html"], "no/such/folder"),
        ],
    )
    def test_mistakes_are_named(self, job, capsys, arguments, words):
        assert main(["report", job, *arguments]) in (2, 3)
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "place", ["s3://bucket/", "s3://bucket", "ftp://b/x.html", "no/such/folder/x.html", ".", "/proc/x.html"]
)
def test_a_place_that_cannot_be_written_to_is_refused(place):
    with pytest.raises(CallerError) as error:
        made_job(24, 24).job.write_report(place)
    assert error.value.what == "output"


@pytest.mark.parametrize("ratio", [1.02, 1.5, 2.5, 3.4, 10, 1e4])
@pytest.mark.parametrize("binary", [False, True])
def test_a_logarithmic_axis_has_labels(ratio, binary):
    for low in (0.0007, 0.21, 0.55, 1.63, 37):
        assert 2 <= len(log_ticks(low, low * ratio, str, binary)) <= 12


def test_a_notebook_shows_a_report_and_a_status():
    made = made_job(24, 24)
    report = made.job.report()
    assert isinstance(report, ShownReport)
    shown = report._repr_html_()
    assert shown.startswith('<iframe sandbox=""')
    assert "<" not in shown.removeprefix("<").removesuffix("</iframe>")
    assert unescape(shown.partition('srcdoc="')[2].removesuffix('"></iframe>')) == page_of(report)
    status = replace(made.job.status(), note="<script>alert(1)</script>")
    assert "&lt;script&gt;" in status._repr_html_()
    assert "<script" not in status._repr_html_()
    assert made.job.id in status._repr_html_()
