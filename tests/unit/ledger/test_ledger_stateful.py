"""Two workers on one chunk, in any order of leases, starts, ends, saves, drains, deaths and commits that hypothesis can
think of, on a store in memory whose replies get lost. Threads and processes are not here: a step is whole."""

from __future__ import annotations

from tests.unit.ledger.two_workers import TwoWorkers
from tests.unit.stateful import stateful

TestTwoWorkers = TwoWorkers.TestCase
TestTwoWorkers.settings = stateful(examples=80, steps=50)
