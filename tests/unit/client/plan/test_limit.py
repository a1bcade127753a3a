"""A job's limit as its submitter sets it and watchers see it, with a queue in memory. What this cannot prove:
that a price in the table is the billed one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.client.rounds.test_rounds import COMMAND
from tests.unit.client_fakes import FakeBackend, pipeline, queue, uris
from tidemill import prices
from tidemill.client import Job, Pipeline
from tidemill.client.plan.limit import LimitUse
from tidemill.client.rounds import deliveries, enqueue
from tidemill.descriptor import SPEC_VERSION, Rung
from tidemill.errors import CallerError
from tidemill.layout import ChunkKey
from tidemill.ledger import Ledger
from tidemill.ledger.spent_seconds import write_spent
from tidemill.money import job_cost

HOURLY = 3600.0
"""USD per hour of an item: one second costs a dollar."""


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


def sent(max_usd: float | None = 50, **changes: Any) -> tuple[Pipeline, FakeBackend, Job]:
    target, backend = pipeline(max_spec=SPEC_VERSION)
    values: dict[str, Any] = {"queue": "cpu", "name": "tiles", "chunk_size": 1, "max_usd": max_usd}
    price = HOURLY if max_usd else None
    return target, backend, target.submit(COMMAND, uris(6), usd_per_item_hour=price, **(values | changes))


def spend(target: Pipeline, job: Job, usd: float, number: int = 0) -> None:
    write_spent(target.store, ChunkKey(job.id, number, 0), f"a{number}-x", usd)


# ---- submitting -------------------------------------------------------------------------------------------------


def test_the_spec_says_the_limit_and_the_price_and_old_workers_do_not_read_it():
    _, _, job = sent(50)
    assert job.spec.limit is not None
    assert (job.spec.limit.max_usd, job.spec.limit.usd_per_item_hour, job.spec.spec_version) == (50, HOURLY, 2)
    assert sent(None)[2].spec.spec_version == 1, "what needs nothing new is read by every worker"


def test_a_stack_whose_workers_know_no_limit_refuses_it_before_anything_is_written():
    target, backend = pipeline()
    with pytest.raises(CallerError, match=r"up to version 1, this one is of 2\. .* or leave `max_usd` out"):
        target.submit(COMMAND, uris(2), queue="cpu", max_usd=1, usd_per_item_hour=1)
    assert backend.arrays == []
    assert target.submit(COMMAND, uris(2), queue="cpu").spec.limit is None


def price_of(*rungs: Rung, cloud: str, region: str, machines: list[Any]) -> tuple[float, list[str], Any]:
    there = queue(capacity=list(rungs), machines=machines)
    target, _ = pipeline(max_spec=SPEC_VERSION, cloud=cloud, region=region, queues={"cpu": there})
    said: list[str] = []
    job = target.submit(COMMAND, uris(2), queue="cpu", max_usd=1, log=said.append)
    assert job.spec.limit is not None
    return job.spec.limit.usd_per_item_hour, said, job_cost(there, cloud, region, 3600)


SPOT, FURTHER = Rung(market="spot", max_cpus=300), Rung(market="on_demand", max_cpus=100)


def gcp_machines() -> list[Any]:
    machine = queue().machines[0]
    return [machine.model_copy(update={"type": kind}) for kind in ("n2-standard-8", "c3d-standard-8")]


def test_the_price_is_that_of_the_dearest_machine_on_the_rungs_as_large_as_they_are():
    usd, said, cost = price_of(SPOT, FURTHER, cloud="gcp", region="us-central1", machines=gcp_machines())
    assert 0 < cost.spot.high < cost.on_demand.high
    assert usd == pytest.approx((300 * cost.spot.high + 100 * cost.on_demand.high) / 400)
    assert not any("Spot" in text for text in said)
    (origin,) = [text for text in said if text.startswith("The limit counts prices")]
    assert f"the oldest of {cost.as_of}, from Cloud Billing Catalog" in origin
    assert price_of(SPOT, cloud="gcp", region="us-central1", machines=gcp_machines())[0] == cost.spot.high


def test_without_a_spot_price_the_on_demand_price_is_taken_and_said(monkeypatch: pytest.MonkeyPatch):
    known = prices.machine("aws", "us-east-1", "c7i.2xlarge")
    assert known is not None
    for asked in ("machine", "at_most"):
        monkeypatch.setattr(prices, asked, lambda *_, **__: replace(known, spot=None))
    usd, said, cost = price_of(SPOT, cloud="aws", region="us-east-1", machines=queue().machines)
    assert usd == cost.on_demand.high
    assert any("no Spot price is known" in text for text in said)


def test_a_machine_without_a_price_counts_as_the_dearest_known_elsewhere():
    usd, said, cost = price_of(FURTHER, cloud="aws", region="eu-west-1", machines=queue().machines)
    known = prices.at_most("aws", "eu-west-1", queue().machines[0].type)
    assert known is not None
    assert known.on_demand is not None
    assert cost.on_demand.high is None
    assert usd > 0
    assert any("no price is known in eu-west-1 of" in text and "dearest one known elsewhere" in text for text in said)


def test_a_limit_is_refused_where_one_machine_has_no_price_at_all():
    strange = [*queue().machines, queue().machines[0].model_copy(update={"type": "zz9.large"})]
    with pytest.raises(CallerError, match=r"in us-east-1 or elsewhere, of zz9\.large\..*usd_per_item_hour"):
        price_of(SPOT, FURTHER, cloud="aws", region="us-east-1", machines=strange)


def test_the_same_name_with_another_limit_is_refused_and_with_the_same_is_the_same_job():
    target, backend, job = sent(50)
    again = {"queue": "cpu", "name": "tiles", "chunk_size": 1, "usd_per_item_hour": HOURLY}
    assert target.submit(COMMAND, uris(6), **again, max_usd=50).id == job.id
    with pytest.raises(CallerError, match=rf"max_usd is 80, .* the job {job.id}, sent with 50\. Give the same"):
        target.submit(COMMAND, uris(6), **again, max_usd=80)
    assert len(backend.arrays) == 1


def test_a_submit_stops_sending_when_what_it_sent_has_cost_enough():
    target, backend = pipeline(max_spec=SPEC_VERSION)
    backend.service = replace(backend.service, array_chunks=1)
    send, said = backend.enqueue, list[str]()

    def enqueue_and_run(shape: Any, arrays: Any) -> None:
        """The fleet is fast: each array has cost its 20 USD before the next is sent."""
        send(shape, arrays)
        for array in arrays:
            write_spent(target.store, ChunkKey(array.address.job, 0, array.chunks[0]), "a1-x", 20)

    backend.enqueue = enqueue_and_run  # type: ignore[method-assign]
    job = target.submit(
        COMMAND, uris(12), queue="cpu", chunk_size=1, max_usd=60, usd_per_item_hour=HOURLY, log=said.append
    )
    assert job.enqueued == len(backend.arrays) == enqueue.ARRAYS_A_LOOK < 12
    assert job.cancelled
    assert said[-1] == f"{job.id} is cancelled before all of it was sent: max_usd: about 80.00 of 60.00 USD are spent."


# ---- watching ---------------------------------------------------------------------------------------------------


def test_a_status_says_what_was_consumed():
    target, _, job = sent(50)
    assert job.status().spent == LimitUse(0, 50)
    spend(target, job, 12.3)
    status = job.status()
    assert status.spent == LimitUse(12.3, 50)
    assert status.facts()["cost"] == "about 12.30 of 50.00 USD"
    assert status.to_json()["spent"] == {"usd": 12.3, "max_usd": 50}
    _, _, free = sent(None)
    assert free.status().spent is None
    assert "cost" not in free.status().facts()


def test_whoever_waits_ends_what_the_queue_still_holds():
    target, backend, job = sent(50)
    spend(target, job, 51)
    status = job.wait(poll_seconds=0.01)
    assert (status.state, status.exit_code) == ("cancelled", 1)
    assert status.note == "cancelled by ada: max_usd: about 51.00 of 50.00 USD are spent"
    assert status.facts()["continue"] == f"tidemill resume {job.id} --max-usd USD, more than 50"
    assert backend.arrays[0].terminated


def test_whoever_waits_ends_what_the_queue_holds_of_a_job_that_a_worker_has_ended():
    target, backend, job = sent(50)
    spend(target, job, 51)
    Ledger(target.store, job.id).cancel("worker", "max_usd: enough", 1, 50)
    assert job.wait(poll_seconds=0.01).note == "stopped: max_usd: enough"
    assert backend.arrays[0].terminated


# ---- going on ---------------------------------------------------------------------------------------------------


def ended() -> tuple[Pipeline, FakeBackend, Job]:
    target, backend, job = sent(50)
    spend(target, job, 51)
    job.wait(poll_seconds=0.01)
    return target, backend, job


@pytest.mark.parametrize("max_usd", [None, 20, 51])
def test_what_has_nothing_left_does_not_go_on(max_usd: float | None):
    _, backend, job = ended()
    words = (
        rf"max_usd is {max_usd or 50}, and about 51\.00 USD of it are spent .* `tidemill resume {job.id} --max-usd 100`"
    )
    with pytest.raises(CallerError, match=words):
        job.resume(max_usd)
    assert len(backend.arrays) == 1


def test_a_higher_limit_is_the_next_rounds_and_stays():
    target, _, job = ended()
    assert job.resume(max_usd=80).chunks == 6
    ledger = Ledger(target.store, job.id)
    assert ledger.round(1).max_usd == 80
    assert not job.cancelled
    assert job.status().spent == LimitUse(51, 80)
    job.cancel()
    job.resume()
    assert ledger.round(2).max_usd == 80, "a resume without one keeps it"
    spend(target, job, 30, number=2)
    assert job.wait(poll_seconds=0.01).note == "cancelled by ada: max_usd: about 81.00 of 80.00 USD are spent"


def test_a_retry_counts_what_was_spent_before():
    target, backend, job = sent(50)
    backend.run(target, job.id, fail_items=[1])
    spend(target, job, 50)
    with pytest.raises(CallerError, match=rf"`tidemill retry {job.id} --failed --max-usd 100`"):
        job.retry()
    assert job.retry(max_usd=60).items == 1
    assert Ledger(target.store, job.id).round(1).max_usd == 60


@pytest.mark.parametrize("max_usd", [-4, 0, float("nan")])
def test_an_impossible_new_limit_is_refused_where_nothing_is_left_to_run(max_usd: float):
    target, backend, job = sent(50)
    backend.run(target, job.id)
    for again in (job.resume, lambda usd: job.retry(max_usd=usd)):
        with pytest.raises(CallerError, match=f"max_usd is {max_usd:g}"):
            again(max_usd)


def test_a_job_without_a_limit_gets_none_later():
    """Its workers may not know any."""
    _, _, job = sent(None)
    job.cancel()
    with pytest.raises(CallerError, match="was sent without a limit; leave it out"):
        job.resume(max_usd=10)


def test_a_round_of_an_older_client_has_no_limit_of_its_own():
    target, _, job = sent(50)
    name = f"jobs/{job.id}/rounds/0.json"
    old = json.loads(target.store.get(name))
    del old["max_usd"]
    target.store.put(name, json.dumps(old).encode())
    assert target.job(job.id).status().spent == LimitUse(0, 50)
