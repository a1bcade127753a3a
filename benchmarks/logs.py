"""The log of a large job on localcloud: one search of 500,000 lines, followers within GCP's quota, and the archive.

The clouds here are localcloud's: its Insights scans a list in memory, and the followers' clock is virtual. So seconds
are the client's and the emulator's own, and requests are what a real cloud would get.
"""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.logs.models import LogEvent, logs_backends

from benchmarks.figures import figure, machine
from tests.localcloud.aws.test_firehose import LINES as ARCHIVED
from tests.localcloud.aws.test_firehose import archived_objects
from tests.localcloud.aws.test_insights import GROUP, JOB, Group, emulate
from tests.localcloud.gcp.test_follow import World, followed_by_three
from tidemill.clouds.gcp import logs as gcp_logs

SEARCHED = 500_000
MATCHING = 5_000
FOLLOWED = 10_000


def main() -> None:
    """Print the figures."""
    print(machine())
    with pytest.MonkeyPatch.context() as patch:
        _search(patch)
    _follow()
    _quiet()
    _archive()


def _search(patch: pytest.MonkeyPatch) -> None:
    emulate(patch)
    with mock_aws():
        group = Group(boto3.Session("id", "key", region_name="us-west-2"))
        _fill()
        begun = time.monotonic()
        found = group.search(text="no such band")
        figure("logs-grep-500k-seconds", time.monotonic() - begun, "s", 10)
        figure("logs-grep-wrong-lines", abs(len(found) - MATCHING), "lines", 0)
        figure("logs-grep-queries", group.calls.count("StartQuery"), "requests", 1)
        figure("logs-grep-requests", len(group.calls), "requests", 5)
    print(f"{'searched':<12} {SEARCHED:>9,} lines; {', '.join(group.said)}")


def _fill() -> None:
    """Lines of one job over the last hours, in 20 containers; one in a hundred matches."""
    streams = logs_backends["123456789012"]["us-west-2"].groups[GROUP].streams
    (stream,) = [one for name, one in streams.items() if name == "a"]
    events: Any = stream.events
    start = int((time.time() - 3000) * 1000)
    for number in range(SEARCHED):
        said = "no such band" if number % (SEARCHED // MATCHING) == 0 else f"line {number}"
        line = {"job": JOB, "item": number // 10, "attempt": 1, "stream": "stdout", "message": said}
        events.append(LogEvent(0, {"timestamp": start + number * 4, "message": json.dumps(line)}))


def _follow() -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), patch)
        found = followed_by_three(world, FOLLOWED)
        world.close()
    wrong = sum(abs(one[f"line {number}"] - 1) for one in found for number in range(FOLLOWED))
    figure("logs-follow-busy-requests-per-minute", world.most_per_minute(), "requests", gcp_logs.READS_A_MINUTE)
    figure("logs-follow-three-refused", world.refused, "requests", 0)
    figure("logs-follow-lost-or-twice", wrong, "lines", 0)
    figure("logs-follow-three-seconds-after-the-end", world.time.now - world.start - 120, "s", 60)


def _quiet() -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        world = World(Path(folder), patch)
        world.time.run([lambda: world.follow(lambda: world.time.now > world.start + 600, Counter())])
        world.close()
    figure("logs-follow-quiet-requests-per-minute", world.most_per_minute(), "requests", 6)


def _archive() -> None:
    with pytest.MonkeyPatch.context() as patch:
        objects = archived_objects(patch)
    documents = [line for data in objects.values() for line in gzip.decompress(data).splitlines()]
    found = sum(len(json.loads(line)["logEvents"]) for line in documents)
    figure("logs-archive-missing-lines", abs(ARCHIVED - found), "lines", 0)
    figure("logs-archive-names-without-gz", sum(not name.endswith(".json.gz") for name in objects), "objects", 0)


if __name__ == "__main__":
    main()
