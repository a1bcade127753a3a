"""Durations and sizes as people type them."""

import click
import pytest

from tidemill.cli.kinds import Duration, Size


@pytest.mark.parametrize(
    ("kind", "typed", "value"),
    [
        (Duration(), "90", 90),
        (Duration(), "0.5", 0.5),
        (Duration(), "250ms", 0.25),
        (Duration(), "7.2m", 432),
        (Duration(), "10 min", 600),
        (Duration(), "2h", 7200),
        (Duration(), "1d", 86_400),
        (Duration(unit=True), "30d", 30 * 86_400),
        (Size(), "512", 512),
        (Size(), "512M", 512),
        (Size(), "2G", 2048),
        (Size(), "1.5 GiB", 1536),
        (Size(), "2gb", 2048),
    ],
)
def test_what_is_taken(kind, typed, value):
    assert kind.convert(typed, None, None) == value


@pytest.mark.parametrize(
    ("kind", "typed", "words"),
    [
        (Duration(), "soon", "'soon' is not a duration. Use seconds, or 250ms"),
        (Duration(), "-1", "'-1' is not a duration"),
        (Duration(), "1w", "'1w' is not a duration"),
        (Duration(unit=True), "30", "'30' has no unit. Write 30d for days"),
        (Duration(0.1), "50ms", "'50ms' is too short. The least is 0.1s."),
        (Size(), "2K", "'2K' is not a size. Use MiB, or 512M, 2G."),
        (Size(), "nan", "'nan' is not a size"),
    ],
)
def test_what_is_refused(kind, typed, words):
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(typed, None, None)
    assert words in str(refused.value)
