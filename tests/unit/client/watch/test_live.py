"""The live view and the lines of `wait`. What this cannot prove: what a real terminal shows of it."""

import io
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from tidemill.client import Chunks, Status
from tidemill.client.watch import live
from tidemill.client.watch.status import State
from tidemill.completion import Hindrance, gone
from tidemill.ledger import RetryProgress


def status(succeeded=0, failed=0, *, items=500, state: State = "running", reclaims=0, note=None, running=0, waiting=0):
    counted = Chunks(50, (succeeded + failed) // 10, waiting, running)
    remaining = items - succeeded - failed
    return Status("tiles-0a1b2c3d", state, items, succeeded, failed, remaining, counted, reclaims, 1, note)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_the_speed_is_that_of_the_last_minutes():
    clock = Clock()
    speed = live.Speed(clock)
    speed.look(status(0))
    assert speed.items_a_second is None
    clock.now += 10
    speed.look(status(0))
    assert speed.items_a_second is None
    assert speed.seconds_left is None
    clock.now += 10
    speed.look(status(100))
    assert speed.items_a_second == 5
    assert speed.seconds_left == 80
    for _ in range(4 * int(live.WINDOW_SECONDS)):
        clock.now += 1
        speed.look(status(100 + int(clock.now - 1020) * 2, items=5000))
    assert speed.items_a_second == pytest.approx(2, rel=0.02)


def rendered(view, width=100):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(view.render())
    return out.getvalue()


def test_the_view_shows_bar_count_speed_rest_failures_reclaims_and_chunks(patch_time):
    clock = Clock()
    patch_time(monotonic=clock)
    view = live.View("tiles-0a1b2c3d")
    assert "asking the store and the queue" in rendered(view)
    view._speed = live.Speed(clock)
    view(status(running=8, waiting=42))
    clock.now += 20
    view(status(100, 5, reclaims=2, running=8, waiting=30))
    bar, figures = rendered(view).splitlines()
    assert bar.startswith("tiles-0a1b2c3d  ━━━")
    assert bar.rstrip().endswith("105/500 items  21 %  0:20")
    assert figures.strip() == "5 failed, 2 reclaims, 8 chunks running, 30 waiting, 5.25 items/s, 75 s left"


def test_the_view_fits_a_narrow_terminal():
    view = live.View("tiles-0a1b2c3d")
    view(status(100, 5, reclaims=2, running=8, waiting=30))
    assert max(map(len, rendered(view, 60).splitlines())) <= 60


def test_a_hundred_percent_is_said_when_all_is_done():
    assert live.percent(499_999 / 500_000) == "99 %"
    assert live.percent(1.0) == "100 %"
    assert live.clock(3725) == "1:02:05"


def test_lines_say_a_new_state_at_once_and_figures_now_and_then(capsys):
    clock = Clock()
    lines = live.Lines("tiles", clock)
    lines(status(10, running=4))
    clock.now += 2
    lines(status(20, running=4))
    clock.now += 2
    lines(status(20, 1, reclaims=1, running=4))
    clock.now += live.LINE_SECONDS
    lines(status(30, 1, running=1))
    lines(status(499, 1, state="succeeded"))
    assert capsys.readouterr().err.splitlines() == [
        "tiles: 10/500 items, 4 chunks running",
        "tiles: 31/500 items, 1 failed, 1 chunk running, 1.5 items/s, 5.2 min left",
        "tiles: 500/500 items, 1 failed",
    ]


def test_a_retry_is_counted_by_itself_and_its_old_failures_are_not(monkeypatch, capsys):
    clock = Clock()
    lines = live.Lines("tiles", clock)
    view = live.View("tiles")
    for look in (
        replace(status(495, 5), again=RetryProgress(1, 5, 0, 0)),
        replace(status(497, 3, running=2), again=RetryProgress(1, 5, 3, 1)),
        status(499, 1, state="succeeded"),
    ):
        view(look)
        lines(look)
        clock.now += 10
        if look.again and look.again.ended:
            assert "3/5 items again  60 %" in rendered(view)
    assert capsys.readouterr().err.splitlines() == [
        "tiles: 0/5 items again, running",
        "tiles: 3/5 items again, 1 failed, 2 chunks running, 0.3 items/s, 6.7 s left",
        "tiles: 500/500 items, 1 failed",
    ]


def test_items_that_run_again_beside_others_have_not_ended():
    assert replace(status(90, 10), again=RetryProgress(1, 8, 2, 0)).progress == (94, 500)


def test_without_a_terminal_there_are_lines(monkeypatch, capsys):
    with live.following("tiles") as show:
        show(status(note="no machine", state="waiting"))
    assert capsys.readouterr().err == "tiles: 0/500 items, no machine\n"


# ---- from Python --------------------------------------------------------------------------------------------------


class Notebook:
    """Stands in for IPython in a notebook's kernel: what it displays, in order. Not proved: what a browser shows."""

    def __init__(self, monkeypatch, kernel=True):
        self.pages = []
        self.get_ipython = lambda: SimpleNamespace(kernel=self) if kernel else SimpleNamespace()
        self.HTML = str
        monkeypatch.setitem(sys.modules, "IPython", self)
        monkeypatch.setitem(sys.modules, "IPython.display", self)

    def display(self, text, display_id):
        assert display_id
        self.pages.append(text)
        return SimpleNamespace(update=self.pages.append)


def test_a_notebook_has_one_view_that_changes(monkeypatch, capsys):
    notebook = Notebook(monkeypatch)
    with live.showing("a<b-0a1b2c3d", None) as on_status:
        for seen in (status(10), status(10), status(495, failed=5, state="succeeded")):
            on_status(seen)
    first, last = notebook.pages
    assert first.startswith("<code>a&lt;b-0a1b2c3d</code> <progress value=10 max=500></progress> 10/500 items<br>")
    assert "value=500 max=500" in last
    assert "5 failed" in last
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("wanted", "lines"), [(None, 0), (False, 0), (True, 1)])
def test_a_program_whose_output_no_person_watches_shows_what_it_asks_for(monkeypatch, capsys, wanted, lines):
    """IPython on a terminal is no notebook."""
    Notebook(monkeypatch, kernel=False)
    with live.showing("tiles-0a1b2c3d", wanted) as on_status:
        on_status(status(10))
    assert len(capsys.readouterr().err.splitlines()) == lines


def test_a_job_that_nothing_lets_begin_is_not_to_be_resumed():
    mended = Hindrance("first-0a1b2c3d", "first-0a1b2c3d is cancelled", "tidemill resume first-0a1b2c3d")
    for never, command in ((gone("first-0a1b2c3d"), None), (mended, "tidemill resume tiles-0a1b2c3d")):
        seen = status(state="cancelled", note=f"stopped: {never.reason('tiles-0a1b2c3d')}")
        assert seen.continued_by() == command
