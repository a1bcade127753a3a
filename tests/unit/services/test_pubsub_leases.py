"""Leases of Pub/Sub without a network: the requests to the subscription, and which thread makes them when."""

from __future__ import annotations

import io
import json
import threading
import urllib.error
from collections.abc import Callable
from email.message import Message
from typing import Any

import pytest

from tests.unit.worker.fakes import Clock
from tidemill.errors import CallerError
from tidemill.ledger import Round, RoundArray
from tidemill.services.pubsub.lease import holder, source
from tidemill.services.pubsub.lease.holder import DEADLINE_SECONDS, Holder
from tidemill.services.pubsub.lease.source import PubSubLease, PubSubLeases
from tidemill.services.pubsub.lease.subscription import PubSubError, PubSubRefusedError, Subscription
from tidemill.worker import google_api
from tidemill.worker.machine.idle import EMPTY_PULLS, IdlePolicy

SECONDS = 60
ATTRIBUTES = {"job": "t-00000000", "round": "1", "chunk": "7", "job_sha256": "a", "round_sha256": "b"}
RECEIVED = {"ackId": "A", "message": {"messageId": "12", "attributes": ATTRIBUTES}, "deliveryAttempt": 3}
NAME = "projects/p/subscriptions/s"


class Calls:
    """A subscription that notes what it is told; it fails as often as it is told to."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.said: list[tuple[str, tuple[str, ...]]] = []
        self.failures: list[Exception] = []
        self.bad: set[str] = set()

    def extend(self, ack_ids: list[str], seconds: int) -> None:
        assert seconds in (0, DEADLINE_SECONDS)
        self._say("extend" if seconds else "release", ack_ids)

    def acknowledge(self, ack_ids: list[str]) -> None:
        self._say("ack", ack_ids)

    def _say(self, what: str, ack_ids: list[str]) -> None:
        with self.changed:
            if self.failures:
                raise self.failures.pop(0)
            if self.bad & set(ack_ids):
                raise PubSubRefusedError("400 You have passed an invalid ack ID to the service")
            self.said.append((what, tuple(sorted(ack_ids))))
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, SECONDS), self.said


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    monkeypatch.setattr(holder, "EXTEND_SECONDS", 0.02)
    monkeypatch.setattr(holder, "AGAIN_SECONDS", 0.02)
    return Calls()


class TestHolder:
    def test_a_message_is_held_until_it_is_done(self, calls: Calls):
        held = Holder(calls)
        held.hold("A")
        calls.until(lambda: calls.said.count(("extend", ("A",))) >= 5)
        held.ack("A")
        calls.until(lambda: ("ack", ("A",)) in calls.said)
        held.close(SECONDS)
        assert calls.said[-1] == ("ack", ("A",))
        assert held.held == 0

    def test_a_failed_extension_is_tried_again(self, calls: Calls):
        calls.failures = [PubSubError("no answer")] * 3
        held = Holder(calls)
        held.hold("A")
        calls.until(lambda: ("extend", ("A",)) in calls.said)
        held.close(SECONDS)

    def test_one_that_is_refused_does_not_keep_the_others_from_being_held(self, calls: Calls):
        calls.bad = {"B"}
        held = Holder(calls)
        for ack_id in "ABC":
            held.hold(ack_id)
        calls.until(lambda: {("extend", ("A",)), ("extend", ("C",))} <= set(calls.said))
        calls.bad = set()
        held.close(SECONDS)

    @pytest.mark.parametrize(("failures", "given_up"), [(holder.TRIES - 1, False), (holder.TRIES, True)])
    def test_an_acknowledgement_is_tried_again_within_bounds(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch, capsysbinary: Any, failures: int, given_up: bool
    ):
        monkeypatch.setattr(holder.random, "uniform", lambda a, b: 0.001)
        calls.failures = [PubSubError("no answer")] * failures
        held = Holder(calls)
        held.ack("A")
        held.close(SECONDS)
        assert calls.said == ([] if given_up else [("ack", ("A",))])
        assert (b"was not acknowledged" in capsysbinary.readouterr().out) == given_up

    def test_everything_is_given_back_at_the_end(self, calls: Calls):
        held = Holder(calls)
        for ack_id in "AB":
            held.hold(ack_id)
        held.close(SECONDS)
        assert {ack_id for what, ack_ids in calls.said if what == "release" for ack_id in ack_ids} == {"A", "B"}

    def test_what_hangs_holds_up_the_end_for_a_bounded_time(self, calls: Calls):
        held = Holder(calls)
        gate = threading.Event()
        calls.acknowledge = lambda ack_ids: bool(gate.wait(SECONDS)) and None  # type: ignore[method-assign]
        held.ack("A")
        held.close(0.05)
        gate.set()


class TestLease:
    def settled(self) -> tuple[PubSubLease, list[tuple[str, str]]]:
        said: list[tuple[str, str]] = []
        return PubSubLease(RECEIVED, lambda ack_id, what: said.append((ack_id, what))), said

    def test_a_message_is_a_chunk(self):
        lease, said = self.settled()
        assert (lease.job, lease.round, lease.delivery) == ("t-00000000", 1, 3)
        assert (lease.job_sha256, lease.round_sha256) == ("a", "b")
        assert lease.backend == {"message_id": "12", "attempt": 3}
        assert lease.chunk(Round(round=1, arrays=[RoundArray(name="x", chunks=[3, 7])])) == 7
        lease.ack()
        lease.release()
        lease.abandon()
        assert said == [("A", "ack"), ("A", "release"), ("A", "forget")]

    def test_no_two_attempts_have_one_name(self):
        assert self.settled()[0].id != self.settled()[0].id

    def test_a_chunk_that_its_round_does_not_have(self):
        with pytest.raises(CallerError, match="chunk"):
            self.settled()[0].chunk(Round(round=1, arrays=[RoundArray(name="x", first=0, count=7)]))

    @pytest.mark.parametrize("name", ATTRIBUTES)
    def test_a_message_without_an_attribute(self, name: str):
        attributes = {key: value for key, value in ATTRIBUTES.items() if key != name}
        with pytest.raises(ValueError, match=name):
            PubSubLease({"ackId": "A", "message": {"attributes": attributes}}, lambda ack_id, done: None)

    @pytest.mark.parametrize("value", ["-1", "x", "1.5", "", "²"])
    def test_a_chunk_that_is_no_number(self, value: str):
        received = {"ackId": "A", "message": {"attributes": {**ATTRIBUTES, "chunk": value}}}
        with pytest.raises(ValueError, match="chunk"):
            PubSubLease(received, lambda ack_id, done: None)


class Answers(Calls):
    """A subscription whose pulls answer what the test says."""

    name = NAME

    def __init__(self, *pulled: Any) -> None:
        super().__init__()
        self.pulled = list(pulled)
        self.aborted = False
        self.pulls = 0

    def pull(self) -> dict[str, Any] | None:
        self.pulls += 1
        answer = self.pulled.pop(0) if self.pulled else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "EMPTY_SECONDS", 0.0)
    monkeypatch.setattr(source, "LONGEST_PAUSE", 0.001)


def pulled(leases: PubSubLeases) -> PubSubLease | None:
    """What one pull brings."""
    subscription: Any = leases._subscription
    before = subscription.pulls
    while True:
        lease = leases.lease(SECONDS)
        if lease or leases.exhausted or (subscription.pulls > before and not leases._pulling):
            return lease


def until_it_gives_up(leases: PubSubLeases) -> None:
    while True:
        pulled(leases)


@pytest.mark.usefixtures("quick")
class TestLeases:
    def leases(self, clock: Clock, *answers: Any, until: float | None = None) -> tuple[PubSubLeases, Answers]:
        subscription = Answers(*answers)
        told: Any = subscription
        return PubSubLeases(told, IdlePolicy(300, clock, until)), subscription

    def test_it_leaves_only_when_nothing_is_held(self):
        clock = Clock(0.0)
        leases, _ = self.leases(clock, RECEIVED)
        lease = pulled(leases)
        assert lease
        clock.now = 10_000
        for _ in range(5):
            assert pulled(leases) is None
        assert not leases.exhausted
        lease.ack()
        # The time counts from the end of the work.
        for _ in range(5):
            assert pulled(leases) is None
        assert not leases.exhausted
        clock.now += 300
        assert pulled(leases) is None
        assert leases.exhausted
        leases.close()

    def test_failed_pulls_are_no_empty_pulls(self):
        clock = Clock(0.0)
        leases, _ = self.leases(clock, *[PubSubError("503")] * 5)
        clock.now = 10_000
        for _ in range(5 + EMPTY_PULLS - 1):
            assert pulled(leases) is None
        assert not leases.exhausted
        assert pulled(leases) is None
        assert leases.exhausted
        leases.close()

    def test_refusals_are_borne_for_a_while(self, monkeypatch: pytest.MonkeyPatch):
        leases, _ = self.leases(Clock(0.0), *[PubSubRefusedError("pull: 403 no")] * 1000)
        for _ in range(3):
            pulled(leases)
        monkeypatch.setattr(source, "REFUSED_SECONDS", 0.0)
        with pytest.raises(CallerError, match="403 no"):
            until_it_gives_up(leases)
        leases.close()

    def test_with_work_in_hand_they_are_borne_for_longer(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(source, "REFUSED_SECONDS", 0.0)
        leases, _ = self.leases(Clock(0.0), RECEIVED, *[PubSubRefusedError("pull: 403 no")] * 1000)
        lease = pulled(leases)
        assert lease
        for _ in range(20):
            pulled(leases)
        lease.ack()
        with pytest.raises(CallerError, match="403 no"):
            until_it_gives_up(leases)
        leases.close()

    def test_a_machine_that_comes_of_age_pulls_no_more(self):
        clock = Clock(0.0)
        leases, subscription = self.leases(clock, until=100.0)
        clock.now = 99
        assert leases.lease(0) is None
        assert leases.exhausted
        leases.close()
        assert subscription.aborted

    def test_what_a_pull_brings_after_the_end_is_given_back(self):
        leases, subscription = self.leases(Clock(0.0), RECEIVED)
        leases._pulling = True
        leases._asked.put(None)
        leases.end()
        assert not leases.exhausted
        assert pulled(leases) is None
        assert leases.exhausted
        leases.close()
        assert ("release", ("A",)) in subscription.said


class TestSubscription:
    """The requests, as they are made."""

    def answering(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> list[tuple[str, str | None, Any]]:
        asked: list[tuple[str, str | None, Any]] = []
        waiting = list(answers)

        class Opener:
            def open(self, request: Any, timeout: float) -> Any:
                asked.append((request.full_url, request.get_header("Authorization"), json.loads(request.data)))
                answer = waiting.pop(0)
                if isinstance(answer, int):
                    body = io.BytesIO(b'{"error": {"message": "said why"}}')
                    raise urllib.error.HTTPError(request.full_url, answer, "", Message(), body)
                return io.BytesIO(json.dumps(answer).encode())

        monkeypatch.setattr(google_api.urllib.request, "build_opener", lambda *handlers: Opener())
        return asked

    def test_where_the_api_is(self, monkeypatch: pytest.MonkeyPatch):
        asked = self.answering(monkeypatch, {}, {}, {})
        base = "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB"
        for env in ({}, {base: "http://127.0.0.1:9/pubsub"}, {base: "x", "PUBSUB_EMULATOR_HOST": "127.0.0.1:8"}):
            assert Subscription.of(NAME, lambda fresh=False: "t", env).pull() is None
        assert [(url, login) for url, login, _ in asked] == [
            (f"https://pubsub.googleapis.com/v1/{NAME}:pull", "Bearer t"),
            (f"http://127.0.0.1:9/pubsub/v1/{NAME}:pull", "Bearer t"),
            (f"http://127.0.0.1:8/v1/{NAME}:pull", None),
        ]

    def test_a_token_that_is_refused_is_asked_for_anew(self, monkeypatch: pytest.MonkeyPatch):
        asked = self.answering(monkeypatch, 401, {"receivedMessages": [RECEIVED]})
        given = []

        def token(*, fresh: bool = False) -> str:
            given.append(fresh)
            return f"t{len(given)}"

        assert Subscription.of(NAME, token, {}).pull() == RECEIVED
        assert given == [False, True]
        assert [login for _, login, _ in asked] == ["Bearer t1", "Bearer t2"]

    @pytest.mark.parametrize(
        ("code", "kind"), [(403, PubSubRefusedError), (404, PubSubRefusedError), (503, PubSubError), (429, PubSubError)]
    )
    def test_an_error_code_raises_its_kind(self, monkeypatch: pytest.MonkeyPatch, code: int, kind: type[Exception]):
        self.answering(monkeypatch, code)
        with pytest.raises(PubSubError, match=f"acknowledge on {NAME}: {code} said why") as caught:
            Subscription.of(NAME, None, {}).acknowledge(["A"])
        assert type(caught.value) is kind

    def test_an_account_without_a_token(self, monkeypatch: pytest.MonkeyPatch):
        self.answering(monkeypatch)

        def none(*, fresh: bool = False) -> str:
            raise OSError("nobody answers")

        with pytest.raises(PubSubError, match="no access token"):
            Subscription.of(NAME, none, {}).pull()
