"""The lines that benchmarks print. Their values are not looked at here."""

import os
import platform
import sys
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as runner
from benchmarks import figures
from tests.warm import COLD


@pytest.mark.parametrize(
    ("sizes", "higher", "line"),
    [
        ((4.2, 5.0), False, "bench x 4.2 s 5 ok"),
        ((5.0, 5.0), False, "bench x 5 s 5 ok"),
        ((5.01, 5.0), False, "bench x 5.01 s 5 short"),
        ((0.9, 1.0), True, "bench x 0.9 s 1 short"),
        ((123456.7, 1.0), True, "bench x 123457 s 1 ok"),
        ((0, 0), False, "bench x 0 s 0 ok"),
    ],
)
def test_a_figure_is_one_line_and_counts_when_it_is_short(capsys, monkeypatch, sizes, higher, line):
    monkeypatch.setattr(figures, "short", [])
    value, limit = sizes
    good = figures.figure("x", value, "s", limit, higher_is_better=higher)
    assert capsys.readouterr().out == line + "\n"
    assert good == line.endswith("ok")
    assert figures.short == ([] if good else ["x"])


def test_one_benchmark_in_this_process_says_where_it_runs_and_starts_cold(capsys, monkeypatch):
    bench = SimpleNamespace(main=lambda: print(f"cold: {os.environ.get(COLD)}"))
    monkeypatch.setitem(sys.modules, "benchmarks.state", bench)
    monkeypatch.setenv(COLD, "")
    assert runner.main(["--here", "state"]) == 0
    head, said = capsys.readouterr().out.splitlines()
    assert said == "cold: 1"
    assert head.startswith("# state: ")
    assert f"Python {platform.python_version()} of {sys.base_prefix}, built " in head


def test_a_benchmark_that_does_not_exist_is_a_callers_mistake(capsys):
    assert runner.main(["nope"]) == 2
    assert "ONLY is 'nope'; allowed: " in capsys.readouterr().out
