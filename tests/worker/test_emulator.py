"""A client and a worker that are told of a Pub/Sub emulator, and of nothing else to log in at.

The emulator is localcloud's alone, Google's fake behind a REST front, on a clock whose hour takes six seconds. That a
lease is extended in time is shown where the test is the clock (`test_pubsub.py`): here a machine that stalls for a
second may have a message come again, which must do no harm.
"""

from __future__ import annotations

from localcloud.gcp.clock import Clock
from localcloud.gcp.pubsub import PubSub
from tests.unit.google_fakes import PROJECT, gcp_descriptor, gcp_queue, names_of
from tests.worker.containers import ran, until
from tests.worker.gce import Gce
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.descriptor import WorkerExit
from tidemill.job import Resources
from tidemill.services.backend import Array, ArrayAddress, Shape
from tidemill.services.pubsub.backend import GcpPubSub

FACTOR = 600.0
HOUR = 3600.0


def publish(job) -> None:
    """As a submit does."""
    address = ArrayAddress(job.spec.job, 0, 0, job.job_sha256, job.round_sha256)
    shape = Shape(gcp_queue(), "default", Resources(), 1, "ada", {})
    GcpPubSub(gcp_descriptor(), job.ledger.store, GcpAccount(gcp_descriptor())).enqueue(
        shape, [Array("a", range(1), address)]
    )


def test_an_item_of_more_than_an_hour_by_way_of_an_emulator(team, monkeypatch, tmp_path):
    where, clock = names_of(gcp_queue()), Clock(FACTOR)
    assert where.subscription.startswith(f"projects/{PROJECT}/")
    with PubSub(clock, pull_wait=0.2 * FACTOR) as pubsub, Gce(team).running() as gce:
        pubsub.json("PUT", f"v1/{where.topic}", {})
        pubsub.json("PUT", f"v1/{where.subscription}", {"topic": where.topic, "ackDeadlineSeconds": 600})
        emulator = f"127.0.0.1:{pubsub.rest}"
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", emulator)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nobody.json"))
        log, gate = tmp_path / "log", tmp_path / "gate"
        job = team.job(["a"], ["sh", "-c", f"echo x >> {log}; until test -e {gate}; do sleep 0.05; done"])
        publish(job)
        settings = {"TIDEMILL_SUBSCRIPTION": where.subscription, "PUBSUB_EMULATOR_HOST": emulator}
        # Idle for longer than a lease lasts, so that a message that comes again finds somebody.
        worker = gce.start(**settings, TIDEMILL_IDLE_SECONDS="3")
        until(log.exists, "the item")
        begun = clock.now()
        until(lambda: clock.now() > begun + HOUR, "an hour")
        until(lambda: pubsub.control()["subscriptions"][where.subscription]["unacked"] == 1, "a lease")
        gate.touch()
        assert ran(worker).code == WorkerExit.DONE
        assert pubsub.control()["subscriptions"][where.subscription]["unacked"] == 0
        assert gce.pulls == 0, "it asked the emulator"
    assert log.read_text().split() == ["x"]
    assert [(outcome.status, outcome.attempts) for outcome in job.outcomes()] == [("succeeded", 1)]
