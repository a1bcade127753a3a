"""Expected loss by reclaims on a machine that saves its work now and then: pure arithmetic.

Reclaims come at random, at a constant mean rate (a Poisson process). Work is cut into segments of equal length; each
ends with a save, and a reclaim loses what was done since the last one. A new machine then takes some time to start and
restore, which is paid for.
"""

from __future__ import annotations

import math


def young(save_seconds: float, reclaim_hours: float) -> float:
    """The best interval between saves, in seconds: the root of 2 * (time of a save) * (mean time between reclaims).

    Source: J. W. Young, A first order approximation to the optimum checkpoint interval, CACM 17 (9), 1974.

    Args:
        save_seconds: How long a save takes.
        reclaim_hours: Mean time between two reclaims of a machine.
    """
    return math.sqrt(2 * save_seconds * reclaim_hours * 3600)


def paid_hours(
    hours: float,
    reclaim_hours: float | None,
    *,
    interval_seconds: float,
    save_seconds: float = 0.0,
    restart_seconds: float = 0.0,
) -> float:
    """How many hours of a machine are paid for so many hours of work, on average.

    A segment of length s needs (exp(s / M) - 1) * M * exp(R / M) hours, where M is the mean time between reclaims and R
    the time of a restart, which a reclaim may end too.
    Source: M. Bougeret et al., Checkpointing strategies for parallel jobs, SC 2011, proposition 1, without downtime,
    which costs nothing.

    Args:
        hours: The work itself, without saves.
        reclaim_hours: Mean time between two reclaims of a machine; None where machines are not taken away.
        interval_seconds: Work between two saves.
        save_seconds: How long a save takes.
        restart_seconds: From a machine's start until it goes on with the work.

    Returns:
        Infinity where a segment is so long that it practically never ends.
    """
    interval, save, restart = (each / 3600 for each in (interval_seconds, save_seconds, restart_seconds))
    whole, rest = divmod(hours, interval)
    segments = [(whole, interval + save), *([(1.0, rest + save)] if rest > 1e-9 else [])]
    return sum(count * _segment(length, reclaim_hours, restart) for count, length in segments)


def _segment(length: float, mean: float | None, restart: float) -> float:
    if mean is None:
        return length
    if (length + restart) / mean > 500:
        return math.inf
    return math.expm1(length / mean) * mean * math.exp(restart / mean)
