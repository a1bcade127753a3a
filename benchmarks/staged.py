"""Items that are fetched and uploaded, through `cp {input} {output}/` on a real S3 server, compared with tools that
copy the same objects and keep nothing.

The server is versitygw over a folder of this machine (tests/store/servers.py), so nothing here is the speed of a
network. To see whether transfers overlap with work, the second part delays every request as S3 does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.figures import figure
from benchmarks.peers import installed, s5cmd, s5cmd_environment
from tests.store.servers import BUCKET, Server, environment, versitygw
from tidemill.client import Pipeline

ITEMS = 2_000
ITEM_BYTES = 200_000
WORKERS = 2
RUNS = 3
OVER_S5CMD = 1.6
"""Upper limit: fetching, running and uploading with every outcome recorded, relative to copying down and up."""
OVER_BY_HAND = 1.3
"""Upper limit, relative to a script that does the same: s5cmd alone starts no process per item."""
AWS_ITEMS = 20
"""Items that the AWS CLI copies: it takes most of a second for each."""
WORK_ITEMS = 400
WORK_SECONDS = 0.05
DELAY_SECONDS = 0.02
"""What a request takes longer in the second part: about S3's time to the first byte."""
BUSY = 0.9
TIMEOUT_SECONDS = 900
BIN = Path(sys.executable).parent


def main() -> None:
    """Print the table and the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, versitygw(Path(name, "server")) as server:
        folder = Path(name)
        env = s5cmd_environment(os.environ | environment(server, server.port))
        write_items(folder, env)
        print(f"\n{ITEMS} items of {ITEM_BYTES // 1000} KB, down and up again, {WORKERS} side by side")
        print(f"{'tool':<44} {'seconds':>8}  keeps")
        peer = best(lambda: copied(folder, env))
        row("s5cmd cp, down and up", peer, "nothing")
        script = best(lambda: by_hand(folder, env))
        row(f"s5cmd down, xargs -P{WORKERS} cp, s5cmd up", script, "nothing")
        ours = best(lambda: staged(folder, env, ITEMS, "cp", "{input}", "{output}/"))
        assert len(outcomes(folder)) == ITEMS
        row("tidemill run -- cp {input} {output}/", ours, "every outcome")
        if aws := installed("awscli"):
            seconds = by_aws(folder, env, aws / "aws") * ITEMS / AWS_ITEMS
            row(f"xargs -P{WORKERS} aws s3 cp (from {AWS_ITEMS} items)", seconds, "nothing")
        else:
            print("awscli could not be installed")
        figure("staged-over-s5cmd", ours / peer, "x", OVER_S5CMD)
        figure("staged-over-s5cmd-and-cp", ours / script, "x", OVER_BY_HAND)
        overlapped(folder, server, env)


def write_items(folder: Path, env: Mapping[str, str]) -> None:
    """Write the objects, and the list of their URIs."""
    (folder / "in").mkdir()
    for n in range(ITEMS):
        (folder / "in" / f"{n:05d}.bin").write_bytes(os.urandom(ITEM_BYTES))
    run([str(s5cmd()), "cp", f"{folder}/in/", f"s3://{BUCKET}/in/"], folder, env)
    shutil.rmtree(folder / "in")


def copied(folder: Path, env: Mapping[str, str]) -> None:
    """Copy the objects down, and up under other names. Nothing is removed: see `transfer_up.put_aside`."""
    down = fresh(folder, "s5cmd")
    run([str(s5cmd()), "cp", f"s3://{BUCKET}/in/*", f"{down}/"], folder, env)
    run([str(s5cmd()), "cp", f"{down}/", f"s3://{BUCKET}/{down.name}/"], folder, env)


def by_hand(folder: Path, env: Mapping[str, str]) -> None:
    """The same with a process per item between the copies."""
    down, up = fresh(folder, "down"), fresh(folder, "up")
    run([str(s5cmd()), "cp", f"s3://{BUCKET}/in/*", f"{down}/"], folder, env)
    names = "".join(f"{down}/{n:05d}.bin\n" for n in range(ITEMS)).encode()
    run(["xargs", f"-P{WORKERS}", "-I{}", "cp", "{}", f"{up}/"], folder, env, names)
    run([str(s5cmd()), "cp", f"{up}/", f"s3://{BUCKET}/{up.name}/"], folder, env)


def staged(folder: Path, env: Mapping[str, str], items: int, *command: str) -> None:
    """Run a job on some of the objects, with a store and outputs of its own: nothing is removed here either."""
    store = fresh(folder, "store")
    (folder / "items.txt").write_text("".join(f"s3://{BUCKET}/in/{n:05d}.bin\n" for n in range(items)))
    options = ["--workers", str(WORKERS), "--store", f"file://{store}", "--items", "items.txt"]
    run(
        [str(BIN / "tidemill"), "run", *options, "--output", f"s3://{BUCKET}/{store.name}", "--", *command], folder, env
    )


def fresh(folder: Path, name: str) -> Path:
    """Make a folder of a new name."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))


def by_aws(folder: Path, env: Mapping[str, str], aws: Path) -> float:
    """Return how long the AWS CLI takes for a few objects, down and up."""
    one = f"{aws} s3 cp --quiet s3://{BUCKET}/in/$1 aws-$1 && {aws} s3 cp --quiet aws-$1 s3://{BUCKET}/aws/$1"
    names = "".join(f"{n:05d}.bin\n" for n in range(AWS_ITEMS))
    started = time.monotonic()
    command = ["xargs", f"-P{WORKERS}", "-n1", "sh", "-c", one, "copy"]
    run(command, folder, env, names.encode())
    return time.monotonic() - started


def overlapped(folder: Path, server: Server, env: Mapping[str, str]) -> None:
    """Items that work for 50 ms, with a store that takes a while to answer."""
    print(f"\n{WORK_ITEMS} items of {WORK_SECONDS * 1000:.0f} ms, every request {DELAY_SECONDS * 1000:.0f} ms longer")
    marks = folder / "marks"
    mark = f"date +%s.%N >> {marks}"
    program = f'{mark}; sleep {WORK_SECONDS}; cp "$TIDEMILL_INPUT" "$TIDEMILL_OUTPUT/"; {mark}'
    with delayed(server.port) as port:
        staged(folder, {**env, **environment(server, port)}, WORK_ITEMS, "sh", "-c", program)
    times = sorted(map(float, marks.read_text().split()))
    assert len(times) == 2 * WORK_ITEMS
    working = sum(outcome["wall_seconds"] for outcome in outcomes(folder))
    figure("staged-busy", working / (WORKERS * (times[-1] - times[0])), "share", BUSY, higher_is_better=True)


@contextmanager
def delayed(port: int) -> Iterator[int]:
    """Yield the port of a relay that delays every request (benchmarks/delay.py)."""
    command = [sys.executable, "-m", "benchmarks.delay", str(port), str(DELAY_SECONDS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout
        try:
            yield int(relay.stdout.readline())
        finally:
            relay.kill()


def outcomes(folder: Path) -> list[dict[str, Any]]:
    """Return the outcomes of the job that ran last; all of them have succeeded."""
    store = max(folder.glob("store-*"), key=lambda path: path.stat().st_mtime)
    pipeline = Pipeline.load(f"file://{store}/pipeline.json")
    found = [asdict(outcome) for outcome in pipeline.job(pipeline.jobs(1)[0].job).results()]
    assert all(outcome["status"] == "succeeded" and outcome["output"] for outcome in found)
    return found


def run(command: Sequence[str], folder: Path, env: Mapping[str, str], stdin: bytes = b"") -> None:
    """Run a command to its end."""
    done = subprocess.run(
        command, cwd=folder, env=env, input=stdin, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:200]} ended with {done.returncode}: {done.stderr.decode()[-2000:]}")


def best(measure: Callable[[], None]) -> float:
    """Return the seconds of the fastest of some runs."""
    return min(timed(measure) for _ in range(RUNS))


def timed(measure: Callable[[], None]) -> float:
    """Return the seconds of a run."""
    started = time.monotonic()
    measure()
    return time.monotonic() - started


def row(tool: str, seconds: float, kept: str) -> None:
    """Print a line of the table."""
    print(f"{tool:<44} {seconds:>8.2f}  {kept}", flush=True)
