"""Calls side by side, whose results come in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidemill.store.ahead import in_order


def test_results_come_in_order_and_few_calls_begin_ahead():
    begun = list[int]()
    with ThreadPoolExecutor(4) as pool:
        results = in_order(pool, lambda n: begun.append(n) or n, range(100), 8)
        assert [next(results) for _ in range(10)] == list(range(10))
        assert len(begun) <= 18
        assert list(results) == list(range(10, 100))


def test_the_first_error_ends_it_once_what_has_begun_is_over():
    begun, over = list[int](), list[int]()

    def call(n: int) -> int:
        begun.append(n)
        if n == 3:
            raise ValueError(n)
        over.append(n)
        return n

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(ValueError, match=r"^3$"):
            list(in_order(pool, call, range(100), 8))
        assert set(begun) == {3, *over}
        assert len(begun) <= 12


def test_a_reader_that_stops_waits_for_no_call_that_never_begins():
    gate = threading.Event()
    pool = ThreadPoolExecutor(1)
    results = in_order(pool, lambda n: n == 0 or gate.wait(60), range(9), 8)
    assert next(results) is True
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    stops = threading.Thread(target=results.close, daemon=True)  # pyright: ignore[reportAttributeAccessIssue]
    stops.start()
    stops.join(20)
    assert not stops.is_alive()
