"""The long chaos test: 5,000 items, 8 worker processes, and everything that may go wrong (tests/chaos)."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import figure
from tests.chaos.world import Size, World

SECONDS = 600
SEED_VARIABLE = "CHAOS_SEED"


def main() -> None:
    """Run it once with the seed from CHAOS_SEED."""
    size = Size(items=5000, chunk_size=25, seed=int(os.environ.get(SEED_VARIABLE, "4")), seconds=SECONDS)
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
