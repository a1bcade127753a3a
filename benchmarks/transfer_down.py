"""Outputs on their way down, compared with s5cmd, on a real S3 server (versitygw over a folder of this machine).

Both bring the same objects. Ours also reads which items have succeeded and which attempt counts, and names the files.
Nothing here is the speed of a network, and server and client share the CPUs of one machine.
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
from benchmarks.transfer_up import put_aside
from tests.store.servers import BUCKET, environment, versitygw
from tests.stored import write_manifest, write_round, write_spec
from tests.unit.client_fakes import descriptor
from tidemill.client.plan.spec import build_spec
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Outcome, Round, RoundArray
from tidemill.store import Store

KINDS = {"5k-files": (5_000, 100_000), "4gib": (16, 256 * 2**20)}
CHUNK = 50
RUNS = 2
OVER_S5CMD = 1.3
AGAIN_SECONDS = 2
MEGABYTES = 150
TIDEMILL = str(Path(sys.executable).with_name("tidemill"))


def main() -> None:
    """Print the table and the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, versitygw(Path(name, "server")) as server:
        folder = Path(name)
        env = s5cmd_environment(os.environ | environment(server, server.port))
        print(f"{'what':<44} {'seconds':>8} {'CPU':>6} {'MB':>6}")
        for what, (count, size) in KINDS.items():
            down(folder, what, finished(folder, env, count, size), env)
            shutil.rmtree(folder / "server/data" / BUCKET)
            (folder / "server/data" / BUCKET).mkdir()


def finished(folder: Path, env: Mapping[str, str], count: int, size: int) -> JobSpec:
    """Leave in the store what a job leaves whose items wrote a file each."""
    numbers = {"chunk_size": CHUNK, "items_total": count, "chunks_total": -(-count // CHUNK)}
    spec = build_spec(name="bench", queue="cpu", command=["x"], **numbers)
    uri, block = f"s3://{BUCKET}", os.urandom(size)
    for n in range(count):
        path = folder / "up" / str(n) / "a.1" / "result.bin"
        path.parent.mkdir(parents=True)
        path.write_bytes(n.to_bytes(8, "big") + block[8:])
    run([str(s5cmd()), "cp", f"{folder}/up/", f"{uri}/out/{spec.job}/"], dict(env), folder)
    put_aside(folder / "up", folder / "aside", remove=count < CHUNK)
    with patch.dict(os.environ, env):
        store = Store.open(uri)
        store.put("pipeline.json", descriptor(uri).model_dump_json().encode())
        ledger = Ledger(store, spec.job)
        write_manifest(store, spec.job, (f"s3://raw/{n}.jpg" for n in range(count)), CHUNK)
        write_spec(ledger, spec)
        write_round(ledger, Round(round=0, arrays=[RoundArray(name="a", first=0, count=spec.chunks_total)]))
        for chunk in range(spec.chunks_total):
            items = range(chunk * CHUNK, min(count, (chunk + 1) * CHUNK))
            ledger.chunk(0, chunk).commit("a", [outcome(uri, spec.job, n) for n in items])
    return spec


def outcome(uri: str, job: str, item: int) -> Outcome:
    """Return the outcome of an item that succeeded."""
    return Outcome(index=item, uri=f"s3://raw/{item}.jpg", status="succeeded", output=f"{uri}/out/{job}/{item}/a.1/")


def down(folder: Path, what: str, spec: JobSpec, env: Mapping[str, str]) -> None:
    """Bring the outputs with both tools, one after the other, and once more with ours."""
    peers, ours = [], []
    for _ in range(RUNS):
        theirs = folder / "s5cmd"
        peers.append(run([str(s5cmd()), "cp", f"s3://{BUCKET}/out/{spec.job}/*", f"{theirs}/"], dict(env), folder))
        row(f"{what}: s5cmd cp", peers[-1])
        for path in (theirs, folder / "ours"):
            put_aside(path, folder / "aside", remove=what == "4gib")
        ours.append(fetched(folder, spec, env))
        row(f"{what}: tidemill fetch", ours[-1])
    again = fetched(folder, spec, env)
    row(f"{what}: the same again", again)
    check(folder, spec)
    best = min(one.seconds for one in ours)
    figure(f"transfer-down-{what}-over-s5cmd", best / min(one.seconds for one in peers), "x", OVER_S5CMD)
    figure(f"transfer-down-{what}-memory", max(one.megabytes for one in ours), "MB", MEGABYTES)
    figure(f"transfer-down-{what}-again", again.seconds, "s", AGAIN_SECONDS)


def fetched(folder: Path, spec: JobSpec, env: Mapping[str, str]) -> Run:
    """Fetch the job."""
    command = [TIDEMILL, "fetch", spec.job, "--pipeline", f"s3://{BUCKET}/pipeline.json", "-o", str(folder / "ours")]
    return run(command, dict(env), folder)


def check(folder: Path, spec: JobSpec) -> None:
    """Check that every file is there, and is that of its item."""
    for n in range(spec.items_total):
        with (folder / "ours" / str(n) / "result.bin").open("rb") as file:
            assert int.from_bytes(file.read(8), "big") == n
    shutil.rmtree(folder / "ours")


def row(what: str, done: Run) -> None:
    """Print a line of the table."""
    print(f"{what:<44} {done.seconds:>8.2f} {done.cpu_seconds:>6.2f} {done.megabytes:>6.0f}", flush=True)
