"""The long chaos test (tests/chaos): 5,000 items on AWS Batch with 8 worker processes and everything that may go wrong,
and lives of chains on GCP whose participants die between any two requests."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import figure
from tests.chaos import gcp
from tests.chaos.world import Size, World

SECONDS = 600
LIVES = 40
SEED_VARIABLE = "CHAOS_SEED"
ITEMS_VARIABLE = "CHAOS_ITEMS"


def main() -> None:
    """Run both once with the seed from CHAOS_SEED, and with as many items as CHAOS_ITEMS says."""
    seed, items = int(os.environ.get(SEED_VARIABLE, "4")), int(os.environ.get(ITEMS_VARIABLE, "5000"))
    _chains(seed)
    size = Size(items=items, chunk_size=25, seed=seed, seconds=SECONDS)
    with tempfile.TemporaryDirectory(prefix="tidemill-chaos-") as folder:
        report = World(Path(folder), size).run()
    print(f"{size.items} items in {size.chunks} chunks, {size.workers} workers, seed {size.seed}")
    print(f"  {'requests to the store':28} {report.requests:6}")
    for event, count in sorted(report.events.items()):
        print(f"  {event:28} {count:6}")
    for failure, count in sorted(report.failures.items()):
        print(f"  {'store: ' + failure:28} {count:6}")
    for wrong in report.wrong:
        print(f"  wrong: {wrong}", file=sys.stderr)
    figure("chaos-items-without-exactly-one-outcome", report.items_wrong, "items", 0)
    figure("chaos-broken-promises", len(report.wrong), "findings", 0)
    figure("chaos-seconds", report.seconds, "s", SECONDS)


def _chains(seed: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tidemill-chaos-") as folder:
        seen = gcp.run(Path(folder), seed, LIVES)
    print(f"{seen.lives} lives of a chain on GCP, seed {seed}")
    for event, count in sorted(seen.events.items()):
        print(f"  {event:28} {count:6}")
    for wrong in seen.wrong:
        print(f"  wrong: {wrong}", file=sys.stderr)
    deaths = sum(count for event, count in seen.events.items() if event.endswith("died"))
    figure("chaos-gcp-deaths", deaths, "deaths", LIVES, higher_is_better=True)
    figure("chaos-gcp-broken-promises", len(seen.wrong), "findings", 0)
