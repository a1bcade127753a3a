"""The requests and log lines of half a million items: counted on a stack's own policies, priced by S3's list.

The benchmark brings a stack up on localcloud, runs small jobs on it and counts the calls of the job's role by kind. The
requests of a large job follow from these. AWS does not evaluate the policies here. Retries after faults, reclaims and
failed items are extra.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from benchmarks.figures import figure
from benchmarks.status import environment, fill
from benchmarks.team import team as idle_team
from localcloud.cloud import Cloud
from tests.e2e.team import Team, await_that, client, team_up
from tidemill.client import Pipeline
from tidemill.client.plan.chunks import plan_chunks
from tidemill.client.watch.wait import POLL_SECONDS

ITEMS = 500_000
SLOTS = 4_000
PRICES = {"GET": 0.4e-6, "PUT": 5e-6, "LIST": 5e-6}
"""USD per request, us-west-2. Source: https://aws.amazon.com/s3/pricing/"""
KINDS = {"s3:GetObject": "GET", "s3:PutObject": "PUT", "s3:ListBucket": "LIST"}
EVENT_BYTES = 26
"""What CloudWatch Logs adds to each event's message when it counts volume.
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html"""
WATCHED_SECONDS = 300
"""Seconds of waiting, on a clock that only the pauses move. An hour's requests are computed from them."""
CHUNKS, STAGED, WORKING, WORKING_SECONDS = 12, 60, 26, 5


@dataclass(frozen=True)
class Requests:
    """Requests by kind."""

    counts: Mapping[str, float]

    @property
    def usd(self) -> float:
        """Return what they cost."""
        return sum(PRICES[kind] * count for kind, count in self.counts.items())

    def less(self, other: Requests, times: float = 1) -> Requests:
        """Subtract other requests."""
        return Requests({kind: self.counts[kind] - times * other.counts[kind] for kind in PRICES})

    def per(self, number: float) -> Requests:
        """Divide by a number."""
        return Requests({kind: count / number for kind, count in self.counts.items()})

    def words(self) -> str:
        """Format the counts for the table."""
        shown = "  ".join(f"{kind} {self.counts[kind]:>6.2f}" for kind in PRICES)
        return f"{shown}   {self.usd * 1e6:>8.2f} USD per million"


def main() -> None:
    """Print the table and the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, Cloud(Path(folder) / "cloud") as cloud:
        project = Path(folder) / "project"
        project.mkdir()
        team = team_up(cloud, project)
        parts = _parts(team, Path(folder))
        for kind in ("10s", "1s"):
            seconds = float(kind[:-1])
            chunks = plan_chunks(ITEMS, SLOTS, seconds, None).chunks
            minutes = ITEMS * seconds / 60
            usd = chunks * parts["chunk"].usd + minutes * parts["minute of running"].usd
            usd += ITEMS * (parts["item with {input}"].usd + parts["output file"].usd)
            print(f"{ITEMS} items of {kind}, in and out, {chunks} chunks: {usd:.2f} USD")
            figure(f"requests-usd-500k-{kind}-items", usd, "USD", 4.0 if kind == "10s" else 3.1)
        _log(team, Path(folder))
    _watch()


def _parts(team: Team, folder: Path) -> dict[str, Requests]:
    """Return the requests of each kind of work."""
    with _counted(team) as none:
        _run(team, "chunks", team.put_items("a", CHUNKS, folder)[0], "true", chunk_size=1)
    chunk = none().per(CHUNKS)
    with _counted(team) as read:
        _run(team, "read", team.put_items("b", STAGED, folder)[0], "cat", "{input}", chunk_size=STAGED)
    with _counted(team) as written:
        _run(team, "written", team.put_items("c", STAGED, folder)[0], "cp", "{input}", "{output}/r", chunk_size=STAGED)
    with _counted(team) as running:
        items, _ = team.put_items("d", WORKING, folder)
        _run(team, "working", items, "sleep", str(WORKING_SECONDS), chunk_size=WORKING)
    item = read().less(chunk).per(STAGED)
    parts = {
        "chunk": chunk,
        "item with {input}": item,
        "output file": written().less(chunk).less(item, STAGED).per(STAGED),
        "minute of running": running().less(chunk).per(WORKING * WORKING_SECONDS / 60),
    }
    for name, requests in parts.items():
        print(f"{name:<24} {requests.words()}")
    return parts


def _run(team: Team, name: str, items: Path, *command: str, chunk_size: int) -> None:
    job = team.submit(name, items, *command, chunk_size=chunk_size)
    await_that(lambda: team.status(job)["ended"], f"{name} is finished", 600)


@contextmanager
def _counted(team: Team) -> Iterator[Callable[[], Requests]]:
    """Count the S3 requests of jobs within the block; call the result after the block has ended."""
    before, after = _of_jobs(team), Counter[str]()
    yield lambda: Requests({kind: after[kind] - before[kind] for kind in PRICES})
    after.update(_of_jobs(team))


def _of_jobs(team: Team) -> Counter[str]:
    counted: Counter[str] = Counter()
    for row in team.cloud.control("calls"):
        if "-job" in row["principal"] and row["action"] in KINDS:
            counted[KINDS[row["action"]]] += row["count"]
    return counted


def _log(team: Team, folder: Path) -> None:
    """How much log chunks produce if their items print nothing."""
    job = team.submit("quiet", team.put_items("e", CHUNKS * 24, folder)[0], "true", chunk_size=24)
    await_that(lambda: team.status(job)["ended"], "quiet is finished", 600)
    logs = client(team.cloud.env, "logs")

    def events() -> list[dict[str, str]]:
        pages = logs.get_paginator("filter_log_events").paginate(
            logGroupName=team.outputs["log_group"], filterPattern=f'"{job}"'
        )
        return [event for page in pages for event in page["events"]]

    wanted = await_that(lambda: len(found := events()) >= 2 * CHUNKS and found, "the log holds the job's lines")
    size = sum(len(event["message"].encode()) + EVENT_BYTES for event in wanted) / CHUNKS
    chunks = plan_chunks(ITEMS, SLOTS, 10, None).chunks
    print(f"log of a chunk of 24 quiet items: {len(wanted) / CHUNKS:.1f} lines, {size:.0f} bytes")
    figure("requests-log-gib-500k-quiet", chunks * size / 2**30, "GiB", 0.5)


def _watch() -> None:
    """Count the requests of one status of a job of half a million ten-second items, and of an hour's wait for it."""
    with idle_team() as there, environment(there.env):
        items = there.folder / "items.txt"
        items.write_text("".join(f"s3://raw-images/{n}.jpg\n" for n in range(ITEMS)))
        pipeline = Pipeline.load(there.env["TIDEMILL_PIPELINE"])
        plan = plan_chunks(ITEMS, SLOTS, 10, None)
        job = pipeline.submit(["true"], str(items), queue="cpu", name="many", chunk_size=plan.chunk_size)
        fill(pipeline.store, job, range(plan.chunks - 1))
        before = pipeline.store.listings
        job.status()
        listings = pipeline.store.listings - before
        print(f"status of {plan.chunks} chunks: LIST {listings}, {listings * PRICES['LIST']:.6f} USD")
        clock, asked = 0.0, pipeline.store.listings

        def passes(seconds: float) -> None:
            nonlocal clock
            clock += seconds
            if clock > WATCHED_SECONDS:
                raise TimeoutError

        # While a job makes progress, the client polls it as often as at first.
        quick = patch("tidemill.client.watch.wait.SLOWEST_POLL_SECONDS", POLL_SECONDS)
        with suppress(TimeoutError), quick, patch.object(time, "sleep", passes):
            job.wait()
        hour = (pipeline.store.listings - asked) * 3600 / clock
        print(f"an hour of waiting for it: LIST {hour:.0f}")
        figure("requests-wait-hour-usd", hour * PRICES["LIST"], "USD", 0.05)


if __name__ == "__main__":
    main()
