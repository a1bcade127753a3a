"""Local data on its way up, compared with s5cmd, on a real S3 server (versitygw over a folder of this machine).

Both send the same files. Ours also hashes them, looks at what the store has, and writes the job. Nothing here is the
speed of a network, and server and client share the CPUs of one machine.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from benchmarks.figures import figure
from benchmarks.peers import s5cmd, s5cmd_environment
from benchmarks.team import Run, run
from tests.store.servers import BUCKET, environment, versitygw
from tests.unit.client_fakes import FakeBackend, descriptor
from tidemill.client import Pipeline
from tidemill.store import Store

FILES, FILE_BYTES = 5_000, 100_000
LARGE_FILES, LARGE_BYTES = 16, 256 * 2**20
RUNS = 2
OVER_S5CMD = 1.3
AGAIN_SECONDS = 2
MEGABYTES = 150


def main() -> None:
    """Print the table and the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, versitygw(Path(name, "server")) as server:
        folder = Path(name)
        env = s5cmd_environment(os.environ | environment(server, server.port))
        env |= {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")}
        print(f"{'what':<44} {'seconds':>8} {'CPU':>6} {'MB':>6}")
        for what, count, size in (("5k-files", FILES, FILE_BYTES), ("4gib", LARGE_FILES, LARGE_BYTES)):
            write_files(folder / what, count, size)
            up(folder, what, env)
            shutil.rmtree(folder / what)
            shutil.rmtree(folder / "server/data" / BUCKET)
            (folder / "server/data" / BUCKET).mkdir()


def write_files(folder: Path, count: int, size: int) -> None:
    """Write files of random bytes."""
    for n in range(count):
        path = folder / f"{n % 50:02d}" / f"{n:05d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for _ in range(0, size, 2**20):
                file.write(os.urandom(min(size, 2**20)))
        # A file that was just written is read again next time.
        os.utime(path, (1e9, 1e9))


def up(folder: Path, what: str, env: Mapping[str, str]) -> None:
    """Upload a folder with both tools, one after the other, and once more with ours."""
    peers, ours = [], []
    for n in range(RUNS):
        peers.append(run([str(s5cmd()), "cp", f"{folder / what}/", f"s3://{BUCKET}/s5cmd-{n}/"], dict(env), folder))
        clear(folder, f"s5cmd-{n}", what)
        row(f"{what}: s5cmd cp", peers[-1])
        # With a cache of its own nothing is known of the files.
        own = {**env, "XDG_CACHE_HOME": str(folder / f"cache-{what}-{n}")}
        clear(folder, "uploads", what)
        ours.append(submitted(folder, what, own))
        row(f"{what}: tidemill submit --items", ours[-1])
    again = submitted(folder, what, {**env, "XDG_CACHE_HOME": str(folder / f"cache-{what}-{RUNS - 1}")})
    row(f"{what}: the same again", again)
    best = min(one.seconds for one in ours)
    figure(f"transfer-up-{what}-over-s5cmd", best / min(one.seconds for one in peers), "x", OVER_S5CMD)
    figure(f"transfer-up-{what}-memory", max(one.megabytes for one in ours), "MB", MEGABYTES)
    figure(f"transfer-up-{what}-again", again.seconds, "s", AGAIN_SECONDS)


def clear(folder: Path, prefix: str, what: str) -> None:
    """Remove objects, as a folder of the server: both tools write to an empty place."""
    put_aside(folder / "server/data" / BUCKET / prefix, folder / "aside", remove=what == "4gib")


def put_aside(path: Path, place: Path, *, remove: bool) -> None:
    """Take a folder away between two measurements; many files are moved, and removed only after all of them.

    ext4 does not soon use a freed inode again, and each create looks past all of those: a tool that makes thousands of
    files right after as many were removed would pay for that.
    """
    if remove:
        shutil.rmtree(path, ignore_errors=True)
    elif path.exists():
        place.mkdir(exist_ok=True)
        path.rename(place / str(len(os.listdir(place))))


def submitted(folder: Path, what: str, env: Mapping[str, str]) -> Run:
    """Submit a job with the folder as its items, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.transfer_up", str(folder / what)]
    return run(command, {**env, "PYTHONPATH": str(Path(__file__).parents[1])}, folder)


def row(what: str, done: Run) -> None:
    """Print a line of the table."""
    print(f"{what:<44} {done.seconds:>8.2f} {done.cpu_seconds:>6.2f} {done.megabytes:>6.0f}", flush=True)


def submit(items: Path) -> None:
    """Submit to a pipeline whose store is the server's, and whose queue takes anything."""
    uri = f"s3://{BUCKET}"
    store = Store.open(uri, region="us-west-2", user_login=True)
    pipeline = Pipeline(descriptor(uri, readable=[]), store, FakeBackend())
    # The server has no registry to ask for the image.
    with patch("tidemill.client.sending.submit.image_problems", return_value=[]):
        print(pipeline.submit(["cp", "{input}", "{output}"], items, queue="cpu", log=print).id)


if __name__ == "__main__":
    submit(Path(sys.argv[1]))
