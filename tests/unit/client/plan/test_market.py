"""A job's own market: which job queue of Batch it is sent to and asked of, what it costs, and what is refused."""

from __future__ import annotations

import pytest

from tests.unit.client_fakes import ARN, pipeline, queue, uris
from tidemill.client import Pipeline
from tidemill.descriptor import AwsQueue, Queue, Rung
from tidemill.errors import CallerError
from tidemill.request import with_flags
from tidemill.services.batch.backend import submit_request

LADDER = [Rung(market="spot", max_cpus=64), Rung(market="on_demand", max_cpus=16)]
COMMAND = ["p", "{uri}"]


def choosing(**markets: str) -> Queue:
    found = queue(capacity=LADDER)
    assert found.aws
    return found.model_copy(update={"aws": AwsQueue(job_queue=found.aws.job_queue, markets=markets)})  # type: ignore


@pytest.fixture
def made():
    return pipeline(
        max_spec=8, queues={"cpu": choosing(spot=f"{ARN}:job-queue/spot", on_demand=f"{ARN}:job-queue/demand")}
    )


@pytest.mark.parametrize(("market", "name"), [(None, "cpu"), ("spot", "spot"), ("on-demand", "demand")])
def test_a_job_goes_to_the_job_queue_of_its_market(made, market, name):
    target, backend = made
    job = target.submit(COMMAND, uris(4), queue="cpu", market=market)
    fake = backend.arrays[0]
    assert submit_request(fake.shape, fake.array)["jobQueue"].rpartition("/")[2] == name
    asked = []
    real = backend.describe
    backend.describe = lambda queue, *more: asked.append(queue.aws.job_queue) or real(queue, *more)
    job.status()
    job.cancel()
    assert {arn.rpartition("/")[2] for arn in asked} == {name}


def test_an_estimate_and_a_limit_count_the_rungs_of_the_market(made):
    target, _ = made
    limits = {
        market: target.submit(COMMAND, uris(1), queue="cpu", market=market, max_usd=5).spec.limit.usd_per_item_hour
        for market in ("spot", "on-demand")
    }
    assert limits["spot"] < limits["on-demand"]


def test_the_market_does_not_change_which_job_it_is(made):
    target, _ = made
    asked = {"queue": "cpu", "name": "tiles"}
    first = target.submit(COMMAND, uris(1), market="spot", start_within="6h", **asked)
    said = []
    again = target.submit(COMMAND, uris(1), market="on-demand", log=said.append, **asked)
    assert (again.id, again.spec.market) == (first.id, "spot")
    line = f"{first.id} was sent before and keeps what it has: `market` is spot, `start_within_seconds` is 6 h."
    assert line in said
    assert "`--market` is spot, `--start-within` is 6 h" in with_flags(line)
    said.clear()
    target.submit(COMMAND, uris(1), market="spot", start_within="6h", log=said.append, **asked)
    assert not [each for each in said if "keeps" in each]


@pytest.mark.parametrize(
    ("market", "allowed"), [("on-demand", "a market that queue 'cpu' allows: spot"), ("on_demand", "spot or on-demand")]
)
def test_another_market_is_refused_before_anything_is_written(market, allowed):
    target, _ = pipeline(queues={"cpu": choosing(spot=f"{ARN}:job-queue/spot")})
    before = list(target.store.list(""))
    with pytest.raises(CallerError) as caught:
        target.submit(COMMAND, uris(1), queue="cpu", market=market)
    assert str(caught.value).startswith(f"market is {market!r}; it must be {allowed}.")
    assert ("tidemill:queues.cpu.per_job.markets" in str(caught.value)) == (market == "on-demand")
    assert list(target.store.list("")) == before


def test_a_market_that_the_stack_has_lost_is_named(made):
    target, backend = made
    job = target.submit(COMMAND, uris(1), queue="cpu", market="spot")
    later = Pipeline(target.descriptor.model_copy(update={"queues": {"cpu": choosing()}}), target.store, backend)
    with pytest.raises(CallerError, match="was sent to the market 'spot' of queue 'cpu'"):
        later.job(job.id).resume()
