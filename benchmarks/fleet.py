"""Half a million items on a thousand machines, in virtual time: the cost and losses of three ways to scale a fleet.

The three are ours, the plain autoscaler with workers that return what they hold on SIGTERM, and the plain autoscaler
with the Python client's defaults (one message at a time, which favours it: by default it holds up to a thousand). All
use our subscription: 100 deliveries before the dead letters. The model is `benchmarks/fleet_world.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.figures import figure
from benchmarks.fleet_world import OURS, POLICIES, Load, Result, World, log_normal, longest_first

ITEMS, MACHINES = 500_000, 1000
RATES = (0.0, 0.05, 0.15, 0.30)
STOCKOUT = (0.5, 4 * 3600, 240)
"""Once half of the items are done, at most 240 machines are available for four hours."""
WRONG_BY = 1.65
"""What is expected of an item is wrong by this factor (one sigma)."""
STATE = (60, 30)
"""Items with state are saved every minute, and take half a minute to restore."""
PICTURE = Path("build/fleet.svg")
RUN_SECONDS, ALL_SECONDS = 30, 480


def main() -> None:
    """Run every policy at every rate, then the two additional questions."""
    began = time.monotonic()
    console = Console(width=150)
    load = Load(log_normal(ITEMS), machines=MACHINES, stockout=STOCKOUT)
    found: dict[float, list[Result]] = {}
    slowest = 0.0
    for rate in RATES:
        for policy in POLICIES:
            start = time.process_time()
            found.setdefault(rate, []).append(World(policy, replace(load, reclaimed_an_hour=rate)).run())
            slowest = max(slowest, time.process_time() - start)
    ordered = longest_first(load.items, WRONG_BY)
    more = {
        "0%, 16 slots, no stockout": Load(load.items, machines=MACHINES, slots=16),
        "0%, 16 slots, longest first": Load(ordered, machines=MACHINES, slots=16),
        "15%, items with state": replace(load, reclaimed_an_hour=0.15, state=STATE),
    }
    others = {name: World(OURS, each).run() for name, each in more.items()}
    console.print(_table(found, others))
    warm = {count: World(OURS, _small(count)).run() for count in (0, 1, 10)}
    console.print(_starts(warm))
    _draw(found[0.15], PICTURE)
    console.print(f"Drawn in {PICTURE}")
    ours = [results[0] for results in found.values()]
    figure("fleet-items-lost", sum(result.lost for result in ours), "items", 0)
    figure("fleet-busy-machines-removed", sum(result.busy_removed for result in ours), "machines", 0)
    figure("fleet-target-at-the-end", max(result.target for result in ours), "machines", 0)
    figure("fleet-over-ideal-without-reclaims", 100 * found[0.0][0].over_ideal, "%", 5)
    _, first, stateful = others.values()
    figure("fleet-over-ideal-16-slots", 100 * first.over_ideal, "%", 12)
    figure("fleet-over-ideal-15-percent-state", 100 * stateful.over_ideal, "%", 5)
    figure("fleet-one-run-seconds", slowest, "s", RUN_SECONDS)
    figure("fleet-seconds", time.monotonic() - began, "s", ALL_SECONDS)


def _small(warm: int) -> Load:
    """Return a small job that arrives after the fleet has been idle for an hour."""
    items = [60.0] * 50
    return Load(items, machines=50, warm=warm, later=[(3600.0, len(items))])


def _table(found: dict[float, list[Result]], others: dict[str, Result]) -> Table:
    table = Table(title=f"{ITEMS:,} items (median 5 min, up to 4 h), {MACHINES:,} machines, a stockout in the middle")
    for name in ("reclaimed an hour", "policy"):
        table.add_column(name)
    for name in ("lost", "run again", "finished again", "wasted CPU h", "over ideal", "done after", "zero after"):
        table.add_column(name, justify="right")
    table.add_column("busy removed", justify="right")
    rows = [(f"{rate:.0%}", result) for rate, results in found.items() for result in results]
    for rate, result in [*rows, *others.items()]:
        table.add_row(rate, *_cells(result), end_section=result.policy == POLICIES[-1].name)
    return table


def _cells(result: Result) -> Iterable[str]:
    return (
        result.policy,
        f"{result.lost:,}",
        f"{result.run_again:,}",
        f"{result.finished_again:,}",
        f"{result.wasted_hours:,.0f}",
        f"{result.over_ideal:.1%}",
        f"{result.done_at / 3600:.1f} h",
        f"{(result.zero_at - result.done_at) / 60:.0f} min",
        f"{result.busy_removed:,}",
    )


def _starts(warm: dict[int, Result]) -> Table:
    table = Table(title="50 items of a minute after an hour of rest: from the first message")
    for name in ("min_machines", "first item runs after", "all done after"):
        table.add_column(name, justify="right")
    for count, result in warm.items():
        table.add_row(str(count), f"{result.first_item_at - 3600:.0f} s", f"{result.done_at - 3600:.0f} s")
    return table


def _draw(results: list[Result], path: Path) -> None:
    """Plot machines over time, one line per policy."""
    drawing = Figure(figsize=(9, 4), layout="constrained")
    axes = drawing.add_subplot()
    for result in results:
        axes.plot([at / 3600 for at, _ in result.sizes], [size for _, size in result.sizes], label=result.policy)
    axes.set(xlabel="hours", ylabel="machines that are billed", title="15 % of the machines are reclaimed an hour")
    axes.legend()
    path.parent.mkdir(exist_ok=True)
    drawing.savefig(path)
