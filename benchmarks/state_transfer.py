"""State on a real S3 server: what saving and restoring it cost, next to a plain put and get and to other tools.

The server is versitygw over a folder of this machine (tests/store/servers.py), so nothing here is the speed of a
network, and it shares the CPUs with its clients. What is compared is done by turns, a slice of the files at a time, so
that other work on the machine slows both. `BENCH_STATE_MIB` sets the size of the state (2,048).
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import obstore

from benchmarks.figures import figure
from benchmarks.peers import installed, rclone, rclone_environment, s5cmd, s5cmd_environment
from tests.store.servers import BUCKET, environment, versitygw
from tidemill import layout
from tidemill.state import Saver, Snapshots, choose, restore, scan
from tidemill.store import Store

STATE_MIB = int(os.environ.get("BENCH_STATE_MIB", "2048"))
FILES, SLICES = 64, 8
LARGE = "large-00000000"
CHANGES = 100
TURNS = 3
"""Of our snapshot and the tools that it is compared with; the median of each counts."""
TIMEOUT_SECONDS = 600


def main() -> None:
    """Print the table and the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, versitygw(Path(name, "server")) as server:
        folder, source = Path(name), Path(name, "large")
        env = os.environ | environment(server, server.port)
        source.mkdir()
        for n in range(FILES):
            (source / f"{n:02d}").write_bytes(os.urandom(STATE_MIB * 2**20 // FILES))
        print(f"\n{STATE_MIB} MiB in {FILES} files")
        by_turns(folder, env)
        alone(folder, source, env)
        many = timed(env, "many", folder)
        figure("state-objects-per-file", many["objects"] / many["files"], "x", 2)


def by_turns(folder: Path, env: Mapping[str, str]) -> None:
    """Compare with a plain put and a plain get of the same bytes."""
    found = timed(env, "turns", folder)
    for what, key in (
        ("obstore put, 2 at a time", "put"),
        ("snapshot", "save"),
        ("obstore get, 4 at a time", "get"),
        ("restore", "restore"),
    ):
        print(f"{what:<34} {found[key]:8.2f} s {found[f'{key}_cpu']:8.2f} s of CPU")
    figure("state-save-over-put", found["put"] / found["save"], "x", 0.8, higher_is_better=True)
    figure("state-restore-over-get", found["get"] / found["restore"], "x", 0.8, higher_is_better=True)


def alone(folder: Path, source: Path, env: Mapping[str, str]) -> None:
    """Save and restore the whole state, and compare with tools that people use for a folder of checkpoints."""
    aws, peers = installed("awscli"), s5cmd_environment(env)
    saves = list[dict[str, float]]()
    took: dict[str, list[float]] = {"rclone": [], "aws": []}
    for turn in range(TURNS):
        saves.append(timed(env, "save", folder))
        copy = [rclone(), "copy", source, f"store:{BUCKET}/rclone"]
        took["rclone"].append(compared("rclone", copy, rclone_environment(env)))
        if aws:
            sync = [aws / "aws", "s3", "sync", "--quiet", source, f"s3://{BUCKET}/awscli"]
            took["aws"].append(compared("aws", sync, env))
        if turn < TURNS - 1:
            # They send only what is not there. The disk holds one copy of each.
            for place in ("state", "rclone", *(["awscli"] if aws else [])):
                compared("s5cmd", [s5cmd(), "rm", f"s3://{BUCKET}/{place}/*"], peers)
    save = sorted(saves, key=lambda one: one["seconds"])[TURNS // 2]
    print(f"{'snapshot, all of it':<34} {save['seconds']:8.2f} s")
    figure("state-unchanged-seconds", save["again_seconds"], "s", 0.5)
    figure("state-unchanged-bytes", save["again_bytes"], "bytes", 0)
    figure("state-save-memory", save["memory_mib"], "MiB", 150)
    compared("s5cmd", [s5cmd(), "sync", f"{source}/", f"s3://{BUCKET}/s5cmd/"], peers)
    figure("state-save-over-rclone", save["seconds"] / median(took["rclone"]), "x", 1)
    if aws:
        figure("state-save-over-aws-sync", save["seconds"] / median(took["aws"]), "x", 1)
    back = timed(env, "restore", folder)
    print(f"{'restore, all of it':<34} {back['seconds']:8.2f} s")
    figure("state-restore-memory", back["memory_mib"], "MiB", 150)


def compared(name: str, command: Sequence[object], env: Mapping[str, str]) -> float:
    """Seconds that another tool takes, its start included."""
    began = time.monotonic()
    subprocess.run(
        [str(word) for word in command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    seconds = time.monotonic() - began
    print(f"{' '.join(str(word) for word in [name, *command[1:2]]):<34} {seconds:8.2f} s")
    return seconds


def timed(env: Mapping[str, str], what: str, folder: Path) -> dict[str, float]:
    """Run a part in a process of its own, so that its memory is its own; returns what it has measured."""
    command = [sys.executable, "-m", "benchmarks.state_transfer", what, str(folder)]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=TIMEOUT_SECONDS, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


# ---- in a process of its own ---------------------------------------------------------------------------------------


@contextmanager
def _watch(measured: dict[str, float], key: str = "") -> Iterator[None]:
    """Add the seconds of a block, and those of CPU."""
    names = (key or "seconds", f"{key}_cpu" if key else "cpu")
    before = time.monotonic(), time.process_time()
    yield
    for name, spent in zip(names, (time.monotonic() - before[0], time.process_time() - before[1]), strict=True):
        measured[name] = measured.get(name, 0.0) + spent


def part(what: str, folder: Path) -> dict[str, float]:
    """Measure one part."""
    store, measured = Store.open(f"s3://{BUCKET}"), dict[str, float]()
    parts: dict[str, Callable[[], None]] = {
        "turns": lambda: _turns(store, folder, measured),
        "save": lambda: _save(store, folder / "large", measured),
        "restore": lambda: _restore(store, folder / "back", measured),
        "many": lambda: _many(store, folder / "many", measured),
    }
    parts[what]()
    measured["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return measured


def _turns(store: Store, folder: Path, measured: dict[str, float]) -> None:
    paths = sorted((folder / "large").iterdir())
    slices = [paths[n::SLICES] for n in range(SLICES)]
    for ways in ((_put_slice, _save_slice), (_get_slice, _restore_slice)):
        for n, files in enumerate(slices):
            # Whoever comes second finds the disk busy with what the first has left.
            for way in ways if n % 2 else ways[::-1]:
                way(store, folder / f"slice-{n}", files, measured)


def _put_slice(store: Store, _: Path, paths: list[Path], measured: dict[str, float]) -> None:
    with ThreadPoolExecutor(2) as pool, _watch(measured, "put"):
        list(pool.map(lambda path: obstore.put(store._backend, f"plain/{path.name}", path), paths))


def _save_slice(store: Store, folder: Path, paths: list[Path], measured: dict[str, float]) -> None:
    folder.mkdir()
    for path in paths:
        os.link(path, folder / path.name)
    saver = _attempt(store, folder, f"{folder.name}-00000000")
    with _watch(measured, "save"):
        saver.save(scan(folder), lambda: False)
    saver.close()


def _get_slice(store: Store, folder: Path, paths: list[Path], measured: dict[str, float]) -> None:
    target = folder.with_suffix(".got")
    target.mkdir()

    def one(path: Path) -> None:
        with (target / path.name).open("wb") as file:
            for block in obstore.get(store._backend, f"plain/{path.name}").stream(min_chunk_size=8 * 2**20):
                file.write(block)

    with ThreadPoolExecutor(4) as pool, _watch(measured, "get"):
        list(pool.map(one, paths))
    shutil.rmtree(target)


def _restore_slice(store: Store, folder: Path, _: list[Path], measured: dict[str, float]) -> None:
    _back(store, f"{folder.name}-00000000", folder.with_suffix(".back"), measured, "restore")


def _attempt(store: Store, folder: Path, job: str) -> Saver:
    snapshots = Snapshots(store, job, 0)
    snapshots.claim("a1", 0, "", snapshots.newest())
    return Saver(snapshots, folder)


def _save(store: Store, source: Path, measured: dict[str, float]) -> None:
    saver = _attempt(store, source, LARGE)
    with _watch(measured):
        saver.save(scan(source), lambda: False)
    again = dict[str, float]()
    with _watch(again):
        there = scan(source)
        sent = saver.save(there, lambda: False).bytes if saver.differs(there) else 0
    measured |= {"again_seconds": again["seconds"], "again_bytes": sent}
    saver.close()


def _restore(store: Store, target: Path, measured: dict[str, float]) -> None:
    _back(store, LARGE, target, measured)


def _back(store: Store, job: str, target: Path, measured: dict[str, float], key: str = "") -> None:
    recent = Snapshots(store, job, 0).recent()
    with _watch(measured, key):
        found = restore(store, choose(recent), target, stop=lambda: False, room=lambda: None, note=print)
    assert found is not None
    shutil.rmtree(target)


def _many(store: Store, folder: Path, measured: dict[str, float]) -> None:
    """A hundred snapshots, half of the files changed before each."""
    folder.mkdir()
    saver, files = _attempt(store, folder, "many-00000000"), 10
    for n in range(CHANGES):
        for k in range(files):
            if not n or k < files // 2:
                (folder / str(k)).write_bytes(b"%d %d" % (n, k))
        saver.save(scan(folder), lambda: False)
    saver.close()
    names = store.list(layout.state("many-00000000", 0))
    measured |= {"objects": sum("/snapshots/" not in name for name in names), "files": files}


if __name__ == "__main__":
    print(json.dumps(part(sys.argv[1], Path(sys.argv[2]))))
