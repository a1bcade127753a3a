"""Two workers on one chunk, in any order of leases, starts, ends, saves, drains, deaths and commits that hypothesis can
think of, on a store in memory whose replies get lost. Threads and processes are not here: a step is whole."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.unit.ledger.two_workers import TwoWorkers

TestTwoWorkers = TwoWorkers.TestCase
TestTwoWorkers.settings = settings(
    max_examples=80,
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
