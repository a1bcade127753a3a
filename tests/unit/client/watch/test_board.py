"""`tidemill top`. What this cannot prove: what a person's own terminal shows; a real store's pace."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from dataclasses import replace
from unittest.mock import patch

import pytest
from rich.cells import cell_len

from tests.unit.client.watch.test_live import status
from tests.unit.client_fakes import FakeBackend, outcome, pipeline, uris
from tests.unit.hostile import HOSTILE
from tidemill.cli.board_lines import page
from tidemill.client.plan.limit import LimitUse
from tidemill.client.watch import board, quick_status
from tidemill.client.watch.board import Board, BoardSnapshot, QueueRow, RequestBudget
from tidemill.errors import CloudError
from tidemill.explain.judge import Reason
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk
from tidemill.store import Store


def snapshot(*jobs, **more):
    return BoardSnapshot(list(jobs), [QueueRow("cpu", "enabled, valid", "spot 96 of 4000 CPUs")], **more)


def text(seen, width, height=None, chosen=0):
    return [line.plain.rstrip() for line in page(seen, "vision-dev", width, height, chosen)]


def test_a_row_has_what_people_ask_for():
    job = replace(
        status(100, 5, running=8), items_a_second=5.25, seconds_left=75.0, spent=LimitUse(1.5, 20), note="no machines"
    )
    _, titles, row, why, queue = text(snapshot(job), 120)
    assert titles.split() == ["job", "state", "items", "%", "failed", "items/s", "left", "running", "cost"]
    head, bar, *figures = row.split()[1:]
    assert head == "running"
    assert bar.count("━") == len(bar) * 105 // 500 > 0
    assert " ".join(figures) == "105/500 21 % 5 5.25 75 s 8 1.50 of 20 USD"
    assert why == "  no machines"
    assert queue == "queue cpu: enabled, valid, spot 96 of 4000 CPUs"


@pytest.mark.parametrize("width", [40, 60, 72, 100, 200])
def test_no_line_is_wider_than_the_terminal(width):
    jobs = [
        replace(
            status(n, n % 2, note="wide \N{FULLWIDTH LATIN CAPITAL LETTER A}" * 20, state="waiting"),
            job=f"a-rather-long-name-of-a-job-{n:08x}",
            spent=LimitUse(123456.789, 1e6),
            items_a_second=123456.0,
            seconds_left=1e6,
        )
        for n in range(20)
    ]
    for height in (None, 8, 24, 100):
        lines = page(snapshot(*jobs), "vision-dev", width, height, 19)
        assert max(cell_len(line.plain) for line in lines) <= width
        assert height is None or len(lines) <= height
        if height:
            assert any(line.style == "reverse" for line in lines), "the chosen job is among them"


def test_what_programs_say_moves_no_cursor():
    for said in HOSTILE:
        job = replace(
            status(note=str(said), state="waiting"),
            explained=Reason("L1", "act", str(said), "", None, [], "", False, ""),
        )
        seen = replace(snapshot(job, status(note=str(said), state="waiting")), trouble=str(said))
        for line in text(seen, 100, 20):
            assert not any(c < " " or "\x7f" <= c < "\xa0" or c in "\u202e\u2066\u200b\u2028" for c in line), said


def test_a_pace_never_exceeds_a_request_per_second(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(board.time, "monotonic", lambda: now[0])
    pace, made = RequestBudget(), []
    while now[0] < 600:
        if wait := pace.seconds:
            now[0] += wait
            continue
        pace.pay(7)
        made += [now[0]] * 7
    worst = max(sum(at <= each < at + 60 for each in made) for at in made)
    assert 0.7 * 600 < len(made) <= 600
    assert worst <= 60 + 7


# ---- jobs of an object store ----------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def as_in_a_cloud(monkeypatch):
    monkeypatch.setattr(Store, "is_object_store", True)


def shop(chunks=64):
    """A pipeline, a job in it, and what commits chunks of it."""
    site, backend = pipeline()
    job = site.submit(["x", "{uri}"], uris(chunks), queue="cpu", name="tiles", chunk_size=1)

    def commit(*numbers, fail=False):
        ledger = Ledger(site.store, job.id)
        for number in numbers:
            items = read_chunk(site.store, job.id, number)
            ledger.chunk(0, number).commit("a", [outcome(item.index, item.uri, fail) for item in items])
        done = len(ledger.done_chunks(0))
        backend.arrays[0].children = ["succeeded"] * done + ["running"] * (chunks - done)

    return site, job, commit


def test_parts_add_up_to_the_exact_counts_and_ended_parts_are_not_asked_for_again(monkeypatch):
    monkeypatch.setattr(quick_status, "PAGE", 10)
    site, job, commit = shop()
    commit(*range(20))
    commit(20, fail=True)
    seen = quick_status.QuickStatus(site.site, job.spec)
    first = seen.look()
    assert first.progress[1] == 64
    assert abs(first.progress[0] - 21) <= 16, "one of sixteen parts tells about how many there are"
    last = [seen.look() for _ in range(16)][-1]
    assert (last.succeeded, last.failed, last.remaining) == (20, 1, 43)
    assert last.chunks.running == 43
    commit(*range(21, 63))
    asked = []
    monkeypatch.setattr(quick_status, "read_part", lambda *args: asked.append(args[3]) or read(*args))
    last = [seen.look() for _ in range(20)][-1]
    assert last.remaining == 1
    assert not last.ended
    assert asked[-3:] == ["f"] * 3, "only chunk 63 is open"
    commit(63)
    assert seen.look().state == "failed"


read = quick_status.read_part


def test_an_estimate_grows_with_the_newest_part_and_never_reaches_the_end(monkeypatch):
    monkeypatch.setattr(quick_status, "PAGE", 10)
    site, job, commit = shop()
    seen = quick_status.QuickStatus(site.site, job.spec)
    for _ in range(16):
        assert seen.look().progress == (0, 64)
    commit(*range(63))
    status = seen.look()
    assert status.progress[0] == 63
    assert not status.ended


def test_a_look_at_a_large_job_takes_few_requests(monkeypatch):
    monkeypatch.setattr(quick_status, "PAGE", 10)
    site, job, commit = shop()
    commit(*range(32))
    seen = quick_status.QuickStatus(site.site, job.spec)
    seen.look()
    commit(32)
    before, listings = seen.requests, site.store.listings
    seen.look()
    assert site.store.listings - listings == 2, "a part's records and failures"
    assert seen.requests - before == 2


def test_a_cancelled_job_ends(monkeypatch):
    site, job, commit = shop()
    commit(1)
    seen = quick_status.QuickStatus(site.site, job.spec)
    assert seen.look().state == "running"
    job.cancel()
    monkeypatch.setattr(quick_status, "FACTS_SECONDS", 0)
    monkeypatch.setattr(quick_status, "MOVING_SECONDS", 0)
    seen.look()
    assert seen.look().state == "cancelled"


def backend_of(pipeline):
    assert isinstance(pipeline.site.given, FakeBackend)
    return pipeline.site.given


# ---- the board ------------------------------------------------------------------------------------------------------


def settle(made, clock, seconds=120):
    until = clock[0] + seconds
    while clock[0] < until:
        clock[0] += max(0.1, made.step())
    return made.snapshot()


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(board.time, "monotonic", lambda: now[0])
    return now


def test_the_board_shows_jobs_until_it_is_left_and_finds_new_ones(clock):
    site, job, commit = shop(4)
    old = site.submit(["x", "{uri}"], uris(2), queue="cpu", name="old")
    backend_of(site).run(site, old.id)
    made = Board(site.site)
    seen = settle(made, clock)
    assert [each.job for each in seen.jobs] == [job.id], "what had ended before is not shown"
    assert [queue.name for queue in seen.queues] == ["cpu", "gpu"]
    new = site.submit(["x", "{uri}"], uris(2), queue="cpu", name="new")
    commit(*range(4))
    seen = settle(made, clock)
    assert {each.job: each.state for each in seen.jobs} == {new.id: "waiting", job.id: "succeeded"}
    listings = site.store.listings
    backend_of(site).run(site, new.id)
    settle(made, clock)
    listings = site.store.listings
    settle(made, clock, 60)
    assert site.store.listings - listings <= 3, "jobs that have ended are not looked at, only the journal is"


def test_named_jobs_are_shown_whatever_they_do(clock):
    site, job, commit = shop(4)
    commit(*range(4))
    assert [each.state for each in settle(Board(site.site, [job.spec]), clock).jobs] == ["succeeded"]
    assert [each.state for each in Board(site.site, [job.spec]).whole().jobs] == ["succeeded"]
    assert Board(site.site).whole().jobs == []


def test_an_outage_is_shown_and_passes(clock):
    site, _, _ = shop(4)
    made = Board(site.site)

    def refuse(self, queues):
        raise CloudError("Batch does not answer.")

    with patch.object(FakeBackend, "queue_states", refuse):
        assert "does not answer" in settle(made, clock).trouble
    assert settle(made, clock, 600).trouble == ""


# ---- a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["q", "\x03", "SIGTERM"])
def test_the_terminal_is_as_it_was(tmp_path, end):
    site, _ = pipeline(f"file://{tmp_path}/store")
    here = site.descriptor.model_copy(update={"cloud": "local"})
    site.store.put("pipeline.json", here.model_dump_json().encode())
    leader, follower = pty.openpty()
    before = termios.tcgetattr(follower)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from tidemill.cli import main; sys.exit(main())",
            "top",
            "--pipeline",
            here.uri,
        ],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
    )
    try:
        shown = until(leader, b"No job runs")
        assert shown.startswith(b"\x1b[?1049h"), "on a screen of its own"
        if end == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            os.write(leader, end.encode())
        shown += until(leader, b"\x1b[?1049l")
        assert process.wait(60) == (-signal.SIGTERM if end == "SIGTERM" else 0)
        assert termios.tcgetattr(follower) == before
        assert b"\x1b[3" not in shown, "no colours"
        assert shown.count(b"\x1b[?25l") == shown.count(b"\x1b[?25h"), "the cursor is there"
    finally:
        process.kill()
        process.wait()
        os.close(leader)
        os.close(follower)


def until(leader, wanted):
    shown, deadline = b"", time.monotonic() + 60
    while wanted not in shown:
        ready, _, _ = select.select([leader], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, shown
        shown += os.read(leader, 1 << 16)
    return shown
