"""`tidemill metrics`: what a job's items have printed."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_json, show_table

if TYPE_CHECKING:
    from tidemill.client.results.metrics import ItemMetrics


@click.command()
@job_argument
@click.option("--best", metavar="NAME", help="Only items with this metric, the lowest value first.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every value that is kept, as CSV.")
@click.option("--max", "highest", is_flag=True, help="With --best: the highest value first.")
@common
def command(*, job: str, best: str | None, as_csv: bool, highest: bool, pipeline: str | None, as_json: bool) -> int:
    """Show the metrics of a job's items: the last value of each, and with --best the best value of one."""
    if highest and not best:
        raise click.UsageError("--max goes with --best NAME.")
    if as_csv and (as_json or best):
        raise click.UsageError(f"--csv and {'--json' if as_json else '--best'} exclude each other.")
    loaded = load_job(pipeline, job)
    if as_csv:
        print_values(loaded.metrics(values=True))
        return 0
    from tidemill.client.results.metrics import ranked
    from tidemill.errors import CallerError

    items = loaded.metrics()
    if best is not None and loaded.spec.metrics and best not in loaded.spec.metrics:
        raise CallerError.unknown("metric", best, loaded.id, loaded.spec.metrics)
    rows = list(items) if best is None else ranked(items, best, highest)
    if as_json:
        for row in rows:
            document = asdict(row)
            del document["values"]
            show_json(document)
    elif rows:
        show(rows, list(loaded.spec.metrics), best, highest)
    else:
        click.echo("No item has printed a metric yet.", err=True)
    return 0


def print_values(items: Iterator[ItemMetrics]) -> None:
    """Print a line per value, as they are read."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["item", "uri", "metric", "attempt", "step", "value", "at"])
    for item in items:
        for name, values in sorted(item.values.items()):
            for one in values:
                at = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
                out.writerow([item.index, item.uri, name, one.attempt, one.step, one.value, at])


def show(rows: list[ItemMetrics], names: list[str], best: str | None, highest: bool) -> None:
    others = [name for name in names if name != best]
    chosen = [] if best is None else [f"{'highest' if highest else 'lowest'} {best}", "step", f"last {best}"]
    table = []
    for row in rows:
        value, step = row.best(best, highest) if best else (None, None)
        own = [figure(value), "-" if step is None else step, last(row, best)] if best else []
        table.append([row.index, row.uri, *own, *(last(row, name) for name in others)])
    show_table(["item", "hyperparameters", *chosen, *others], table)


def last(row: ItemMetrics, name: str) -> str:
    return figure(row.metrics[name].last) if name in row.metrics else "-"


def figure(value: float | None) -> str:
    return "nan" if value is None else f"{value:.6g}"
