"""Half a million URIs submitted: store in moto, jobs in localcloud, compared with a person's own boto3 code."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import zstandard

from benchmarks.figures import figure
from benchmarks.team import BUCKET, Run, Team, client, run, team

ITEMS = 500_000
SIZES = (50_000, ITEMS, 2_000_000)
RUNS = 3
AWAY_SECONDS = 0.08
PROGRAM = ("--", "python3", "features.py", "{uri}", "{output}")


def uris(count: int) -> Iterator[str]:
    """Yield names as cameras and hashes make them: they do not compress well."""
    for n in range(count):
        yield f"s3://raw-images/2026/{hashlib.sha256(str(n).encode()).hexdigest()[:48]}/{n:07d}.jpg\n"


def main() -> None:
    """Print a table and the figures."""
    print(f"{'items':>9} {'how':<34} {'seconds':>8} {'CPU':>6} {'MB':>6} {'calls':>9}")
    with team() as there:
        lists = {count: _list(there.folder, count) for count in SIZES}
        submits = {
            count: [_submit(there, lists[count]) for _ in range(RUNS if count == ITEMS else 1)] for count in SIZES
        }
        best = {count: min(done, key=lambda one: one.seconds) for count, done in submits.items()}
        command = [sys.executable, "-m", "benchmarks.submit", str(lists[ITEMS])]
        other = run(command, there.env, there.folder)
        _row(ITEMS, "boto3 by hand: no record, no checks", other)
        with there.far_away(AWAY_SECONDS) as relay:
            away = _submit(there, lists[ITEMS], relay.env, f"with {AWAY_SECONDS * 1000:.0f} ms added")
    memory = [one.megabytes for one in best.values()]
    figure("submit-500k-seconds", best[ITEMS].seconds, "s", 5)
    figure("submit-500k-memory", best[ITEMS].megabytes, "MB", 150)
    figure("submit-500k-80ms-seconds", away.seconds, "s", 15)
    figure("submit-2M-memory", best[SIZES[-1]].megabytes, "MB", 150)
    figure("submit-memory-2M-over-50k", memory[-1] / memory[0], "x", 1.25)
    each = [best[count].seconds / count * 1e6 for count in SIZES]
    figure("submit-microseconds-an-item-2M-over-500k", each[2] / each[1], "x", 1.25)
    figure("submit-500k-over-boto3-by-hand", best[ITEMS].seconds / other.seconds, "x", 2)


def _list(folder: Path, count: int) -> Path:
    path = folder / f"{count}.txt"
    with path.open("w") as file:
        file.writelines(uris(count))
    return path


def _submit(there: Team, items: Path, env: dict[str, str] | None = None, how: str = "tidemill submit") -> Run:
    before = there.calls()
    done = there.tidemill("submit", "--items", str(items), *PROGRAM, env=env)
    _row(int(items.stem), how, done, there.calls() - before)
    return done


def _row(items: int, how: str, done: Run, requests: int | None = None) -> None:
    used = f"{done.seconds:>8.2f} {done.cpu_seconds:>6.2f} {done.megabytes:>6.0f}"
    print(f"{items:>9} {how:<34} {used} {requests or '':>9}", flush=True)


def by_hand(path: str) -> None:
    """What a person writes: one list in the store, chunks of 24 lines, arrays of 10,000."""
    s3, batch = client(os.environ, "s3"), client(os.environ, "batch")
    queue = json.loads(s3.get_object(Bucket=BUCKET, Key="pipeline.json")["Body"].read())["queues"]["cpu"]
    chunks, frames = 0, []
    with open(path) as file:
        while lines := list(islice(file, 24)):
            rows = "\n".join(json.dumps({"i": chunks * 24 + n, "uri": line.strip()}) for n, line in enumerate(lines))
            frames.append(zstandard.compress(rows.encode()))
            chunks += 1
    s3.put_object(Bucket=BUCKET, Key="by-hand", Body=b"".join(frames))
    for start in range(0, chunks, 10_000):
        batch.submit_job(
            jobName=f"by-hand-{start}",
            jobQueue=queue["aws"]["job_queue"],
            jobDefinition=queue["images"]["default"]["job_definition"],
            shareIdentifier="bench",
            arrayProperties={"size": min(10_000, chunks - start)},
        )


if __name__ == "__main__":
    by_hand(sys.argv[1])
