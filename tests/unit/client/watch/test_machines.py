"""The machines that work on jobs. What this cannot prove: that a machine's metadata says the truth."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from tests.unit.client_fakes import pipeline, uris
from tidemill.cli.commands.top import show_machines
from tidemill.ledger import Ledger
from tidemill.ledger.digest import RanOn
from tidemill.worker.machine.boot import booted_at

ONE = RanOn("i-1", "g5.xlarge", "us-west-2a", "spot")
TWO = RanOn("i-2", "g5.2xlarge", "us-west-2b", "on_demand")


def sent(target, name, **more):
    return target.submit(["x", "{input}"], uris(6), name=name, chunk_size=2, **more)


def works(target, job, chunk, machine, *, attempt="a", hours=1, beats=None):
    """The marker's writer of an attempt on a chunk, on a machine of an age."""
    booted = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    about = None if machine is None else asdict(machine) | {"booted_at": booted}
    writer = Ledger(target.store, job.id).chunk(0, chunk).marker(attempt, 1, {}, about)
    if beats:
        writer.beats(beats)
    writer.write({2 * chunk, 2 * chunk + 1})
    return writer


def test_machines_of_jobs_with_what_they_do(capsys):
    target, _ = pipeline()
    one, two = sent(target, "a", queue="gpu", gpus=1), sent(target, "b", queue="cpu")
    works(target, one, 0, ONE)
    works(target, one, 1, TWO, hours=3)
    works(target, two, 0, ONE)
    works(target, two, 1, None, attempt="older")
    rows = target.machines()
    assert [(row.id, row.type, row.market, row.items, row.gpus, row.jobs) for row in rows] == [
        ("i-2", "g5.2xlarge", "on_demand", 2, 2, [one.id]),
        ("i-1", "g5.xlarge", "spot", 4, 2, [one.id, two.id]),
        (None, None, None, 2, 0, [two.id]),
    ]
    assert abs((rows[0].age_seconds or 0) - 3 * 3600) < 60
    assert {row.id for row in target.machines("a")} == {"i-1", "i-2"}
    show_machines(rows, as_json=False)
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split()[:6] == ["i-2", "g5.2xlarge", "us-west-2b", "on-demand", "3", "h"]


def test_what_has_ended_is_left_out():
    target, backend = pipeline()
    job = sent(target, "a", queue="cpu")
    works(target, job, 0, ONE).drained([0])
    works(target, job, 1, ONE, beats=1e-9)
    works(target, job, 2, TWO).ended("released")
    assert target.machines(job.id) == []
    works(target, job, 0, TWO, attempt="b")
    assert [row.id for row in target.machines(job.id)] == ["i-2"]
    backend.run(target, job.id)
    assert target.machines(job.id) == []


def test_a_machine_tells_since_when_it_runs():
    booted = booted_at()
    assert booted is not None
    assert datetime.fromisoformat(booted) < datetime.now(UTC)
