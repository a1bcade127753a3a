"""Half a million URIs sent to GCP as chunk messages of 100, compared with one message per item by Google's own client.

Pub/Sub is Google's fake (`pstest`) on loopback. The job store is a folder; the `submit` benchmark measures what an
object store adds to a submit. The stock client sends as many messages per request as Pub/Sub accepts, 1,000; its own
default of 100 takes about twice as long.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.figures import figure, machine
from benchmarks.submit import uris
from benchmarks.team import Run, run
from localcloud.gcp.pubsub import PubSub
from tidemill.descriptor import Descriptor, GcpQueue, Image, Machine, Queue, Rung

ITEMS = 500_000
SIZES = (50_000, ITEMS, 2_000_000)
CHUNK = 100
RUNS = 3
PROJECT = "bench"
TOPIC = f"projects/{PROJECT}/topics/cpu"
SUBSCRIPTION = f"projects/{PROJECT}/subscriptions/cpu"
PROGRAM = ("--", "python3", "features.py", "{uri}", "{output}")


def main() -> None:
    """Print the table and the figures."""
    print(f"{machine()}\n{'items':>9} {'how':<34} {'seconds':>8} {'CPU s':>6} {'MB':>6} {'messages':>9}")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        lists = {count: _list(Path(folder), count) for count in SIZES}
        ours = {count: min((_ours(path) for _ in range(RUNS)), key=_seconds) for count, path in lists.items()}
        stock = _stock(lists[ITEMS])
    figure("publish-500k-seconds", ours[ITEMS].seconds, "s", 5)
    figure("publish-500k-memory", ours[ITEMS].megabytes, "MB", 200)
    figure("publish-memory-2M-over-50k", ours[SIZES[-1]].megabytes / ours[SIZES[0]].megabytes, "x", 1.25)
    figure("publish-500k-over-a-message-an-item", ours[ITEMS].seconds / stock.seconds, "x", 0.5)


def _list(folder: Path, count: int) -> Path:
    path = folder / f"{count}.txt"
    with path.open("w") as file:
        file.writelines(uris(count))
    return path


def _seconds(done: Run) -> float:
    return done.seconds


def _ours(items: Path) -> Run:
    """Submit once to a new store and a new Pub/Sub, and measure the whole command."""
    count = int(items.stem)
    with PubSub() as pubsub, tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        _make(pubsub)
        (folder / "store").mkdir()
        (folder / "store" / "pipeline.json").write_text(_descriptor(folder).model_dump_json())
        login = {"type": "authorized_user", "account": "ada@example.com"}
        secrets = {"client_id": "bench", "client_secret": "bench", "refresh_token": "bench"}
        (folder / "login.json").write_text(json.dumps(login | secrets))
        env = {
            **os.environ,
            "PUBSUB_EMULATOR_HOST": f"127.0.0.1:{pubsub.rest}",
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "login.json"),
            "TIDEMILL_PIPELINE": f"file://{folder}/store/pipeline.json",
        }
        program = str(Path(sys.executable).parent / "tidemill")
        command = [program, "submit", "--items", str(items), "--chunk-size", str(_chunk(count)), *PROGRAM]
        done = run(command, env, folder)
        sent = pubsub.control()["subscriptions"][SUBSCRIPTION]["unacked"]
    if sent != -(-count // _chunk(count)):
        raise RuntimeError(f"{sent} messages arrived of {count} items")
    _row(count, f"tidemill submit, {_chunk(count)} a message", done, int(sent))
    return done


def _chunk(count: int) -> int:
    """A hundred items per message, more if a job would have too many chunks."""
    return max(CHUNK, -(-count // 50_000))


def _stock(items: Path) -> Run:
    count = int(items.stem)
    with PubSub() as pubsub, tempfile.TemporaryDirectory(prefix="bench-") as folder:
        _make(pubsub)
        env = {**os.environ, "PUBSUB_EMULATOR_HOST": f"127.0.0.1:{pubsub.grpc}"}
        done = run([sys.executable, "-m", "benchmarks.publish", str(items)], env, Path(folder))
        sent = pubsub.control()["subscriptions"][SUBSCRIPTION]["unacked"]
    if sent != count:
        raise RuntimeError(f"{sent} messages arrived of {count} items")
    _row(count, "google-cloud-pubsub, 1 a message", done, int(sent))
    return done


def _row(items: int, how: str, done: Run, messages: int) -> None:
    used = f"{done.seconds:>8.2f} {done.cpu_seconds:>6.2f} {done.megabytes:>6.0f}"
    print(f"{items:>9} {how:<34} {used} {messages:>9}", flush=True)


def _make(pubsub: PubSub) -> None:
    """Create a topic and the subscription that keeps the published messages."""
    pubsub.json("PUT", f"v1/{TOPIC}", {})
    pubsub.json("PUT", f"v1/{SUBSCRIPTION}", {"topic": TOPIC})


def _descriptor(folder: Path) -> Descriptor:
    queue = Queue(
        images={"default": Image(ref="bench@sha256:0")},
        machines=[Machine(type="n2-standard-16", cpus=16, memory_mib=65536)],
        capacity=[Rung(market="spot", max_cpus=4000)],
        scratch_gib=100,
        gcp=GcpQueue(topic=TOPIC, subscription=SUBSCRIPTION, dead_letters=f"{SUBSCRIPTION}-dead"),
    )
    return Descriptor(
        team="bench",
        environment="dev",
        cloud="gcp",
        region="europe-west1",
        account=PROJECT,
        store=f"file://{folder}/store",
        queues={"cpu": queue},
    )


def by_hand(path: str) -> None:
    """Send one message per item with Google's own client."""
    google = importlib.import_module("google.cloud.pubsub_v1")
    settings = google.types.BatchSettings(max_messages=1000, max_bytes=1 << 20, max_latency=0.05)
    publisher = google.PublisherClient(settings)
    with open(path, "rb") as file:
        futures = [publisher.publish(TOPIC, line.strip()) for line in file]
    for future in futures:
        future.result(timeout=300)


if __name__ == "__main__":
    by_hand(sys.argv[1])
