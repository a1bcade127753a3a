"""Leases of a local run: requests to its keeper, and the answers."""

import socket
import threading

import pytest

from tidemill.ledger import Round, RoundArray
from tidemill.services.local import lease as local

ROUND = Round(round=1, arrays=[RoundArray(name="a", first=0, count=3), RoundArray(name="b", chunks=[9, 7, 5])])


GIVEN = {"job": "t-00000000", "round": 1, "chunk": 7, "delivery": 1, "run": "r", "worker": 0}


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def test_the_answer_to_a_request_is_waited_for(ends, monkeypatch):
    """Otherwise a busy worker looks for its next chunk only after a pause, and its slots are empty meanwhile."""
    ours, keeper = ends
    monkeypatch.setattr(local, "ANSWER_SECONDS", 30.0)

    def answer() -> None:
        assert local.receive(keeper) == {"say": "lease"}
        local.send(keeper, GIVEN)

    answering = threading.Thread(target=answer)
    answering.start()
    lease = local.LocalLeases(ours).lease(0.0)
    answering.join(30.0)
    assert lease is not None
    assert (lease.job, lease.chunk(ROUND)) == ("t-00000000", 7)


def test_a_request_is_made_once(ends, monkeypatch):
    ours, keeper = ends
    monkeypatch.setattr(local, "ANSWER_SECONDS", 0.0)
    leases = local.LocalLeases(ours)
    assert leases.lease(0.0) is None
    monkeypatch.setattr(local, "ANSWER_SECONDS", 30.0)
    assert leases.lease(0.0) is None
    local.send(keeper, GIVEN)
    assert leases.lease(0.0) is not None
    assert local.receive(keeper) == {"say": "lease"}
    keeper.setblocking(False)
    with pytest.raises(BlockingIOError):
        local.receive(keeper)


def test_a_worker_does_not_wait_while_others_have_every_chunk(ends, monkeypatch):
    """Its own last items end meanwhile."""
    ours, keeper = ends
    monkeypatch.setattr(local, "ANSWER_SECONDS", 30.0)
    leases = local.LocalLeases(ours)
    local.send(keeper, {"later": True})
    assert leases.lease(0.0) is None
    assert not leases.exhausted
    local.send(keeper, GIVEN)
    assert leases.lease(0.0) is not None
