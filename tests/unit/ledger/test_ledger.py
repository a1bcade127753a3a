"""The ledger over memory: rounds, commits, markers, poison, counts. Real interleavings of workers are not here."""

import json
import time
from typing import Literal

import pytest
from pydantic import ValidationError

from tests.stored import failed_chunks, submitted, write_manifest, write_round, write_spec
from tidemill import layout
from tidemill.errors import DamagedError, StoreMissingError
from tidemill.ledger import Ledger, Outcome, Round, RoundArray
from tidemill.ledger.attempts import POISON_ATTEMPTS
from tidemill.ledger.documents import TamperedError, UnreadableError
from tidemill.ledger.ledger import ALIVE_SECONDS, START_FAILURES
from tidemill.ledger.tombstone import bury as bury_rounds
from tidemill.store import Store
from tidemill.store import store as store_module

ITEMS, SIZE = 10, 3


def outcome(index: int, status: Literal["succeeded", "failed"] = "succeeded", **fields) -> Outcome:
    return Outcome(index=index, uri=f"u{index}", status=status, **fields)


def outcomes_of(chunk: int, failed=()) -> list[Outcome]:
    indexes = range(chunk * SIZE, min(ITEMS, (chunk + 1) * SIZE))
    return [outcome(i, "failed", reason="exit") if i in failed else outcome(i) for i in indexes]


@pytest.fixture
def ledger(monkeypatch):
    monkeypatch.setattr(store_module, "_PAUSES", (0.0, 0.0, 0.0))
    return submitted(Store.open("memory://"), [f"u{i}" for i in range(ITEMS)], SIZE).ledger


def retry(ledger: Ledger, number: int, items: dict[int, list[int]], failed_before: dict[int, int]) -> None:
    arrays = [RoundArray(name="b", chunks=sorted(items))]
    write_round(ledger, Round(round=number, arrays=arrays, items=items, failed_before=failed_before))


class TestCommit:
    """Of two commits the first wins. How a store answers is in tests/worker/test_s3_answers.py."""

    def test_the_first_wins_and_the_second_knows(self, ledger):
        assert ledger.chunk(0, 1).commit("a1", outcomes_of(1)).won
        second = ledger.chunk(0, 1).commit("a2", outcomes_of(1, failed=[3]))
        assert not second.won
        assert second.record.header.attempt == "a1"
        assert ledger.chunk(0, 1).committed().outcomes == outcomes_of(1)

    def test_failures_are_counted_before_the_record_is_there(self, ledger, monkeypatch):
        def create(store, name, data):
            raise SystemExit("the container is killed")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "create", create)
            with pytest.raises(SystemExit):
                ledger.chunk(0, 1).commit("a1", outcomes_of(1, failed=[3, 4]))
        assert (failed_chunks(ledger, 0), ledger.counts().failed) == ({1: 2}, 0)
        # The next attempt fails less; of two markers the record decides.
        ledger.chunk(0, 1).commit("a2", outcomes_of(1, failed=[4]), first=False)
        assert ledger.counts().failed == 1

    def test_a_marker_of_what_the_loser_saw_fail_counts_for_nothing(self, ledger):
        ledger.chunk(0, 1).commit("a1", outcomes_of(1))
        assert not ledger.chunk(0, 1).commit("a2", outcomes_of(1, failed=[3])).won
        assert (ledger.counts().succeeded, ledger.counts().failed) == (3, 0)


class TestImmutable:
    def test_what_was_enqueued_is_checked(self, ledger):
        sha = write_spec(ledger, ledger.spec())
        assert ledger.spec(sha).name == "t"
        ledger.store.put(
            layout.spec(ledger.job), ledger.spec().model_copy(update={"user": "x"}).model_dump_json().encode()
        )
        with pytest.raises(TamperedError):
            ledger.spec(sha)

    def test_a_newer_spec_says_so(self, ledger):
        newer = ledger.spec().model_dump_json().replace('"spec_version":1', '"spec_version":9').encode()
        ledger.store.put(layout.spec(ledger.job), newer)
        with pytest.raises(UnreadableError, match="newer Tidemill"):
            ledger.spec()

    def test_a_job_without_a_spec_is_missing(self):
        with pytest.raises(StoreMissingError):
            Ledger(Store.open("memory://"), "t-00000000").spec()

    @pytest.mark.parametrize("fields", [{}, {"first": 0, "count": 0}, {"chunks": []}, {"chunks": [1], "count": 2}])
    def test_an_array_has_chunks_in_one_form(self, fields):
        with pytest.raises(ValidationError):
            RoundArray(name="a", **fields)

    def test_a_child_finds_its_chunk(self):
        assert RoundArray(name="a", first=5, count=2).chunk(1) == 6
        assert RoundArray(name="a", chunks=[9, 4]).chunk(1) == 4
        for array in (RoundArray(name="a", first=5, count=2), RoundArray(name="a", chunks=[9, 4])):
            with pytest.raises(IndexError):
                array.chunk(2)


class TestPast:
    """What earlier attempts say of a chunk and its items."""

    def attempt(self, ledger, name, in_flight, ends=None, *, alone=False, number=0):
        marker = ledger.chunk(number, 1).marker(name, 1, {})
        marker.write(in_flight, alone=alone)
        if ends == "drained":
            marker.drained(in_flight)
        elif ends:
            marker.ended(ends)

    def test_a_chunk_without_attempts_has_no_history(self, ledger):
        past = ledger.chunk(0, 1).history()
        assert (past.attempts, past.careful, past.poison) == (0, False, set())

    def test_deaths_alone_make_poison(self, ledger):
        for n in range(POISON_ATTEMPTS):
            assert ledger.chunk(0, 1).history().poison == set()
            self.attempt(ledger, f"a{n}", [4], alone=True)
        self.attempt(ledger, "other", [3])
        past = ledger.chunk(0, 1).history()
        assert past.poison == {4}
        assert past.careful

    def test_deaths_in_company_make_suspects_only(self, ledger):
        for n in range(9):
            self.attempt(ledger, f"a{n}", [3, 4])
        past = ledger.chunk(0, 1).history()
        assert (past.poison, past.suspected, past.careful) == (set(), {3: 9, 4: 9}, True)

    def test_an_attempt_that_named_nothing_says_nothing(self, ledger):
        self.attempt(ledger, "a1", [])
        past = ledger.chunk(0, 1).history()
        assert (past.attempts, past.careful) == (1, False)

    def test_what_the_worker_failed_on_is_a_death_with_its_error(self, ledger):
        for n in range(POISON_ATTEMPTS):
            ledger.chunk(0, 1).marker(f"a{n}", 1, {}).broke({4: "ValueError: x"})
        past = ledger.chunk(0, 1).history()
        assert (past.poison, past.errors, past.careful) == ({4}, {4: "ValueError: x"}, False)

    def test_a_marker_of_an_older_worker_makes_suspects_only(self, ledger):
        old = {"chunk": 1, "attempt": "a1-x", "delivery": 1, "backend": {}, "in_flight": [4], "ended": None}
        ledger.store.put(f"jobs/{ledger.job}/r0/attempts/1/a1-x", json.dumps(old).encode())
        past = ledger.chunk(0, 1).history()
        assert (past.suspected, past.deaths, past.careful) == ({4: 1}, {}, True)

    def test_deaths_outlive_the_round(self, ledger):
        array = [RoundArray(name="a", first=0, count=3)]
        for number in range(POISON_ATTEMPTS):
            if number:
                write_round(ledger, Round(round=number, arrays=array))
            self.attempt(ledger, f"a{number}", [4], alone=True, number=number)
        assert ledger.chunk(POISON_ATTEMPTS - 1, 1).history().poison == {4}
        write_round(ledger, Round(round=POISON_ATTEMPTS, arrays=array, code="0" * 64))
        assert ledger.chunk(POISON_ATTEMPTS, 1).history().attempts == 0, "other code is another matter"

    def test_a_marker_is_not_written_to_one_name_twice_within_a_second(self, ledger, patch_time, monkeypatch):
        """Cloud Storage takes one write per second to a name."""
        now, written = [100.0], []
        patch_time(monotonic=lambda: now[0])
        put = ledger.store.put
        monkeypatch.setattr(ledger.store, "put", lambda name, data: (written.append((now[0], name)), put(name, data)))
        marker = ledger.chunk(0, 1).marker("a1", 1, {})
        for n in range(40):
            marker.write([n])
            now[0] += 0.25
        last = {}
        for at, name in written:
            assert at - last.get(name, 0.0) > 1, name
            last[name] = at
        assert len(last) <= 6, "names are used again: a listing stays short"
        past = ledger.chunk(0, 1).history()
        assert (past.attempts, dict(past.suspected)) == (1, {39: 1})

    def test_eleven_reclaims_of_one_chunk_are_no_poison(self, ledger):
        for n in range(11):
            self.attempt(ledger, f"a{n}", [4], "drained")
        past = ledger.chunk(0, 1).history()
        assert past.poison == set()
        assert past.reclaims[4] == 11
        assert not past.careful
        assert ledger.counts().reclaims == 11

    def test_a_drain_cut_short_after_its_first_word_is_a_drain(self, ledger):
        self.attempt(ledger, "a1", [4])
        ledger.store.put(layout.drained(layout.ChunkKey(ledger.job, 0, 1), "a1"), b"")
        past = ledger.chunk(0, 1).history()
        assert past.reclaims[4] == 1
        assert not past.deaths

    def test_an_orderly_end_counts_for_nothing(self, ledger):
        self.attempt(ledger, "a1", [4], "cancelled")
        past = ledger.chunk(0, 1).history()
        assert (past.attempts, past.careful, past.deaths, past.reclaims) == (1, False, {}, {})


class TestDamaged:
    """An object that cannot be decoded is a problem of its job, distinct from a store that does not answer."""

    @pytest.mark.parametrize("content", [b"{", b"\xff", b"{]"])
    @pytest.mark.parametrize(
        ("name", "read"),
        [
            ("r0/attempts/1/a1-x", lambda ledger: ledger.chunk(0, 1).history()),
            ("r0/progress/1/a1-x.0.jsonl", lambda ledger: ledger.chunk(0, 1).progress()),
            ("r0/done/1/1.jsonl", lambda ledger: ledger.chunk(0, 1).committed()),
            ("r0/start_failures/1", lambda ledger: ledger.start_failures(0)),
            ("rounds/1.json", lambda ledger: ledger.rounds()),
            ("rounds/x.json", lambda ledger: ledger.rounds()),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_damaged_object_is_named_in_its_error(self, ledger, name, read, content):
        ledger.store.put(f"jobs/{ledger.job}/{name}", content)
        with pytest.raises(DamagedError, match=f"jobs/{ledger.job}/{name.rsplit('/', 1)[0]}"):
            read(ledger)

    def test_a_damaged_tombstone_cancels_until_another_replaces_it(self, ledger):
        ledger.store.put(layout.cancelled(ledger.job), b"")
        assert ledger.is_cancelled(7)
        ledger.cancel("me", "again")
        assert ledger.cancellation(0)["reason"] == "again"
        assert not ledger.is_cancelled(7)


class TestProgress:
    def test_parts_of_all_attempts_add_up(self, ledger):
        ledger.chunk(0, 1).write_progress("a1", 0, [outcome(3)])
        ledger.chunk(0, 1).write_progress("a1", 1, [outcome(4)])
        ledger.chunk(0, 1).write_progress("a2", 0, [outcome(4, "failed"), outcome(5)])
        found = ledger.chunk(0, 1).progress()
        assert sorted(found) == [3, 4, 5]
        assert found[4].status == "succeeded"

    def test_progress_is_of_its_round(self, ledger):
        ledger.chunk(0, 1).write_progress("a1", 0, [outcome(3)])
        assert ledger.chunk(1, 1).progress() == {}

    def test_a_round_goes_on_with_what_lost_rounds_have_finished(self, ledger):
        ledger.chunk(0, 1).write_progress("a1", 0, [outcome(3, output="first")])
        write_round(ledger, Round(round=1, arrays=[RoundArray(name="b", chunks=[1, 2])]))
        write_round(ledger, Round(round=2, arrays=[RoundArray(name="c", chunks=[0])]))
        write_round(ledger, Round(round=3, arrays=[RoundArray(name="d", chunks=[1])]))
        assert sorted(ledger.chunk(1, 1).carried_over()) == [3]
        ledger.chunk(1, 1).write_progress("a2", 0, [outcome(3, output="second"), outcome(4)])
        found = ledger.chunk(3, 1).carried_over()
        assert (sorted(found), found[3].output) == ([3, 4], "second")
        assert ledger.chunk(0, 1).carried_over() == ledger.chunk(2, 0).carried_over() == {}

    @pytest.mark.parametrize("other", [{"code": "b" * 64}, {"image": "other"}, {"items": {1: [3]}}])
    def test_what_other_code_another_image_or_a_choice_of_items_made_is_not_taken_over(self, ledger, other):
        ledger.chunk(0, 1).write_progress("a1", 0, [outcome(3)])
        write_round(ledger, Round(round=1, arrays=[RoundArray(name="b", chunks=[1])], **other))
        assert ledger.chunk(1, 1).carried_over() == {}

    def test_a_retry_begins_anew_and_what_is_lost_of_it_goes_on_with_it(self, ledger):
        ledger.chunk(0, 1).write_progress("a1", 0, [outcome(3, output="old"), outcome(4, output="old")])
        ledger.chunk(0, 1).commit("a1", outcomes_of(1, failed=[3, 4]))
        retry(ledger, 1, {1: [3, 4]}, {1: 2})
        assert ledger.chunk(1, 1).carried_over() == {}
        ledger.chunk(1, 1).write_progress("a2", 0, [outcome(4, output="new")])
        retry(ledger, 2, {1: [3, 4]}, {1: 2})
        assert {index: o.output for index, o in ledger.chunk(2, 1).carried_over().items()} == {4: "new"}


class TestCounts:
    def test_counts_of_a_job_under_way(self, ledger):
        ledger.chunk(0, 0).commit("a", outcomes_of(0))
        ledger.chunk(0, 3).commit("a", outcomes_of(3, failed=[9]))
        counts = ledger.counts()
        assert (counts.items, counts.succeeded, counts.failed, counts.remaining) == (10, 3, 1, 6)
        assert (counts.chunks_done, counts.chunks_total, counts.finished) == (2, 4, False)

    def test_counts_read_no_record(self, ledger, monkeypatch):
        for chunk in range(4):
            ledger.chunk(0, chunk).commit("a", outcomes_of(chunk, failed=[0, 4]))
        ledger.rounds()
        ledger.index()
        real = Store.get

        def get(store, name):
            assert name.endswith("/cancelled"), f"status read {name}"
            return real(store, name)

        monkeypatch.setattr(Store, "get", get)
        counts = ledger.counts()
        assert (counts.succeeded, counts.failed, counts.finished) == (8, 2, True)

    def test_a_retry_replaces_what_failed(self, ledger):
        for chunk in range(4):
            ledger.chunk(0, chunk).commit("a", outcomes_of(chunk, failed=[0, 4, 5]))
        retry(ledger, 1, {0: [0], 1: [4, 5]}, {0: 1, 1: 2})
        assert not ledger.counts().finished
        ledger.chunk(1, 0).commit("b", [outcome(0)])
        ledger.chunk(1, 1).commit("b", [outcome(4), outcome(5, "failed")])
        counts = ledger.counts()
        assert (counts.succeeded, counts.failed, counts.finished, counts.rounds) == (9, 1, True, 2)

    @pytest.mark.parametrize("late", [[], [0]])
    def test_a_lost_retry_that_commits_after_it_was_repeated_changes_no_count(self, ledger, late):
        for chunk in range(4):
            ledger.chunk(0, chunk).commit("a", outcomes_of(chunk, failed=[0, 1]))
        for number in (1, 2):
            retry(ledger, number, {0: [0]}, {0: 1})
        ledger.chunk(2, 0).commit("b", [outcome(0)])
        ledger.chunk(1, 0).commit("a", [outcome(0, "failed" if late else "succeeded")])
        assert (ledger.counts().succeeded, ledger.counts().failed) == (9, 1)

    def test_the_highest_round_has_the_outcome(self, ledger):
        for chunk in range(4):
            ledger.chunk(0, chunk).commit("a", outcomes_of(chunk, failed=[0, 4]))
        retry(ledger, 1, {0: [0], 1: [4]}, {0: 1, 1: 1})
        ledger.chunk(1, 0).commit("b", [outcome(0, attempts=7)])
        found = list(ledger.outcomes())
        assert [o.index for o in found] == list(range(10))
        assert (found[0].status, found[0].attempts) == ("succeeded", 7)
        assert found[4].status == "failed"

    def test_outcomes_of_many_chunks_stay_in_order(self, ledger):
        store = ledger.store
        write_manifest(store, ledger.job, [f"u{i}" for i in range(300)], 1)
        ledger = Ledger(store, ledger.job)
        for chunk in reversed(range(300)):
            ledger.chunk(0, chunk).commit("a", [outcome(chunk)])
        assert [o.index for o in ledger.outcomes()] == list(range(300))


class TestLargeRounds:
    """A retry of many chunks: its lists are stored next to the round, or in it as version 0.1 wrote them."""

    CHUNKS = 50_000

    def large(self, ledger: Ledger, apart: bool) -> Round:
        chunks = list(range(0, 2 * self.CHUNKS, 2))
        halves = [chunks[: self.CHUNKS // 2], chunks[self.CHUNKS // 2 :]]
        round_ = Round(
            round=1,
            arrays=[RoundArray(name=f"t-r1-a{k}", chunks=half) for k, half in enumerate(halves)],
            items={chunk: [10 * chunk + 1, 10 * chunk + 4] for chunk in chunks[1:]},
            failed_before=dict.fromkeys(chunks[1:], 1),
        )
        assert ledger.add_round(round_, apart) is round_
        return round_

    @pytest.mark.parametrize("apart", [True, False])
    def test_reads_as_it_was_planned(self, ledger, apart):
        wanted, there = self.large(ledger, apart), ledger.round(1)
        assert (there.chosen is not None) == apart
        assert [list(array.all()) for array in there.arrays] == [array.chunks for array in wanted.arrays]
        assert (there.arrays[1].size, there.arrays[1].chunk(7)) == (self.CHUNKS // 2, self.CHUNKS + 14)
        for chunk, runs, failed in [(0, None, 0), (2, [21, 24], 1), (99_998, [999_981, 999_984], 1), (3, None, 0)]:
            assert (there.has(chunk), there.runs(chunk), there.had_failed(chunk)) == (chunk != 3, runs, failed)
        assert there.runs_as(wanted, 2)
        with pytest.raises(IndexError):
            there.arrays[1].chunk(self.CHUNKS // 2)

    def test_a_container_reads_its_own_part_and_nothing_else(self, ledger, monkeypatch):
        self.large(ledger, apart=True)
        read = []
        for verb in ("get", "get_range"):
            real = getattr(Store, verb)
            monkeypatch.setattr(Store, verb, lambda *args, real=real: read.append(len(found := real(*args))) or found)
        there = ledger.round(1)
        assert (there.arrays[1].chunk(9), there.runs(self.CHUNKS + 18)) == (50_018, [500_181, 500_184])
        assert (len(read), sum(read[1:])) == (3, 20 + 16)
        assert read[0] < 1000

    def test_a_client_sees_that_it_is_damaged(self, ledger):
        self.large(ledger, apart=True)
        (name,) = ledger.store.list(layout.of_round(ledger.job, 1, "chosen"))
        ledger.store.put(name, ledger.store.get(name)[:-1])
        with pytest.raises(DamagedError):
            ledger.round(1).has(2)

    def test_a_worker_of_version_0_1_refuses_it(self):
        """It does not know rows, and must not take the array for another."""
        with pytest.raises(ValidationError):
            RoundArray.model_validate(RoundArray(name="a", rows=3).model_dump(exclude={"rows"}))


class TestTheEndBeforeTheEnd:
    def test_the_tombstone_keeps_its_first_word(self, ledger):
        assert not ledger.is_cancelled()
        ledger.cancel(by="ann", reason="enough")
        ledger.cancel(by="bob")
        assert ledger.is_cancelled()
        assert ledger.cancellation()["by"] == "ann"

    def test_a_job_that_cannot_start_cancels_itself(self, ledger):
        for n in range(1, START_FAILURES + 1):
            assert not ledger.is_cancelled()
            assert ledger.start_failed(0, "no such file") == n
        assert "no such file" in ledger.cancellation()["reason"]
        assert ledger.start_failures(0) == ["no such file"] * START_FAILURES
        assert ledger.start_failed(0, "again") == START_FAILURES

    def test_a_job_with_a_success_does_not(self, ledger):
        ledger.chunk(0, 0).commit("a", outcomes_of(0))
        for _ in range(START_FAILURES + 1):
            ledger.start_failed(0, "no such file")
        assert not ledger.is_cancelled()


def test_an_outcome_of_a_newer_worker_is_read():
    line = outcome(1).line().replace('{"index"', '{"of_tomorrow":1,"index"', 1)
    assert Outcome.parse(line) == outcome(1)


class TestTombstone:
    def test_covers_the_rounds_that_there_were(self, ledger):
        ledger.cancel("ann", "too dear")
        assert [ledger.is_cancelled(number) for number in (0, 1)] == [True, False]
        assert ledger.counts().cancelled
        retry(ledger, 1, {0: [0]}, {0: 0})
        assert not ledger.is_cancelled()
        assert not ledger.counts().cancelled
        assert ledger.is_cancelled(0)

    def test_a_second_cancel_covers_the_later_rounds_too(self, ledger):
        ledger.cancel("ann")
        retry(ledger, 1, {0: [0]}, {0: 0})
        ledger.cancel("bob")
        assert [ledger.is_cancelled(number) for number in (0, 1, 2)] == [True, True, False]
        assert ledger.cancellation()["by"] == "bob"
        ledger.cancel("eve", rounds=1)
        assert ledger.cancellation()["by"] == "bob"

    def test_two_later_cancels_at_once_take_nothing_from_each_other(self, ledger, monkeypatch):
        ledger.cancel("ann")
        for number in (1, 2):
            retry(ledger, number, {0: [0]}, {0: 0})
        real = Store.create

        def create(store, name, data):
            answer = real(store, name, data)
            if name.endswith("/cancelled") and b"bob" in data:
                monkeypatch.setattr(Store, "create", real)
                ledger.cancel("eve")
            return answer

        monkeypatch.setattr(Store, "create", create)
        ledger.cancel("bob", rounds=2)
        assert [ledger.is_cancelled(number) for number in range(4)] == [True, True, True, False]
        assert ledger.listing().cancellation["by"] == "eve"

    def test_a_round_that_begins_during_the_cancel_ends_with_it(self, ledger, monkeypatch):
        real = bury_rounds

        def bury(*arguments, **fields):
            real(*arguments, **fields)
            monkeypatch.setattr("tidemill.ledger.ledger.bury", real)
            retry(ledger, 1, {0: [0]}, {0: 0})

        monkeypatch.setattr("tidemill.ledger.ledger.bury", bury)
        assert ledger.cancel("ann") == 2
        assert ledger.is_cancelled()

    def test_one_without_rounds_covers_all(self, ledger):
        ledger.store.put(f"jobs/{ledger.job}/cancelled", b'{"by":"ann","reason":"","at":""}')
        assert ledger.is_cancelled(7)


class Pages:
    """Stands before a store: answers listings in pages of a few names, as an object store does, and counts them."""

    def __init__(self, store: Store, monkeypatch, size: int) -> None:
        self.requests = 0
        pages = store._pages
        monkeypatch.setattr("tidemill.ledger.listing.PAGE", size)
        monkeypatch.setattr(Store, "is_object_store", property(lambda _: True))
        monkeypatch.setattr(store, "_pages", self.chain)
        monkeypatch.setattr(store, "page", self.page)
        self._all = lambda folder, offset: sorted(pages(folder, offset))
        self._size = size

    def chain(self, folder, offset=None):
        while True:
            page = self.page(folder, offset)
            yield from page
            if len(page) < self._size:
                return
            offset = page[-1].name

    def page(self, folder, offset=None):
        self.requests += 1
        return self._all(folder, offset)[: self._size]


@pytest.mark.parametrize("done", [range(0), range(300), range(0, 300, 2), range(0, 300, 7), range(40), range(250, 300)])
def test_a_listing_in_parts_finds_every_name_in_few_requests(monkeypatch, done):
    store = Store.open("memory://")
    ledger = submitted(store, [f"u{i}" for i in range(300)], 1).ledger
    for chunk in done:
        failed = chunk % 3 == 0
        ledger.chunk(0, chunk).commit("a", [outcome(chunk, "failed" if failed else "succeeded")])
    pages = Pages(store, monkeypatch, size=10)
    look = ledger.listing()
    assert set(look.done[0]) == set(done)
    assert look.failed == {chunk: 1 for chunk in done if chunk % 3 == 0}
    needed = -(-len(done) // 10) + -(-len(look.failed) // 10)
    # What cannot be spared: the first page of each of five folders; and a part begins a page.
    assert pages.requests <= 2 * needed + 9, (pages.requests, needed)


def test_what_workers_hold_is_found_in_parts(monkeypatch):
    """Some chunks have several attempts, some none."""
    ledger = Ledger(Store.open("memory://"), "t-00000000")
    write_round(ledger, Round(round=0, arrays=[RoundArray(name="a", count=300)]))
    wanted = {chunk for chunk in range(300) if chunk % 3}
    for chunk in wanted:
        for attempt in range(1 + chunk % 4):
            ledger.chunk(0, chunk).marker(f"a{attempt}-ffff", 1, {}).write([])
    Pages(ledger.store, monkeypatch, size=10)
    assert ledger.beating_chunks(0, time.time()) == wanted
    assert ledger.beating_chunks(0, time.time() + ALIVE_SECONDS + 60) == set()
