"""How many items run side by side, and which slot each gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.descriptor import Resources
from tidemill.machine import Capacity
from tidemill.worker.machine.slots import Slot, SlotPool

MACHINE = Capacity(4.0, 8192 + 96)
ONE = Resources(cpus=1, memory_mib=1024)


class Loaded:
    """Makes slots, and notes which are ended."""

    def __init__(self) -> None:
        self.closed: list[int] = []

    def room(self, of: int | Capacity) -> SlotPool:
        return SlotPool(
            of, lambda number: Slot(number, Path("unused")), lambda slot: self.closed.append(slot.number), 96
        )


@pytest.fixture
def loaded() -> Loaded:
    return Loaded()


def taken(room: SlotPool, job: str, item: Resources, at_most: int = 100) -> list[Slot]:
    slots = []
    while len(slots) < at_most and (slot := room.take(job, item)):
        slots.append(slot)
    return slots


class TestAFixedNumber:
    def test_items_of_any_size_take_one(self, loaded: Loaded):
        room = loaded.room(3)
        assert room.count(Resources(cpus=64)) == 3
        assert [slot.number for slot in taken(room, "a", Resources(cpus=64))] == [0, 1, 2]
        assert (room.left(ONE), room.busy) == (0, True)


class TestAMachine:
    @pytest.mark.parametrize(
        ("item", "count"),
        [
            (ONE, 4),
            (Resources(cpus=1, memory_mib=4096), 2),
            (Resources(cpus=0.5, memory_mib=64), 8),
            (Resources(cpus=1.01, memory_mib=64), 3),
            (Resources(cpus=64, memory_mib=64), 1),
        ],
    )
    def test_as_many_as_fit(self, loaded: Loaded, item: Resources, count: int):
        room = loaded.room(MACHINE)
        assert room.count(item) == room.left(item) == count
        assert len(taken(room, "a", item)) == count

    def test_items_of_two_jobs_share_what_there_is(self, loaded: Loaded):
        room = loaded.room(MACHINE)
        big = taken(room, "a", Resources(cpus=2.5, memory_mib=1024))
        assert len(big) == 1
        assert len(taken(room, "b", ONE)) == 1
        assert room.take("a", Resources(cpus=2.5, memory_mib=1024)) is None
        room.give(big[0])
        assert len(taken(room, "b", ONE)) == 3

    def test_memory_is_shared_too(self, loaded: Loaded):
        room = loaded.room(MACHINE)
        taken(room, "a", Resources(cpus=1, memory_mib=6144), 1)
        assert room.left(Resources(cpus=1, memory_mib=2048)) == 1
        assert room.left(Resources(cpus=1, memory_mib=2100)) == 0

    def test_what_is_larger_than_the_machine_runs_alone(self, loaded: Loaded):
        room = loaded.room(MACHINE)
        huge = Resources(cpus=64, memory_mib=64)
        small = taken(room, "a", ONE, 1)
        assert room.take("b", huge) is None
        room.give(small[0])
        assert room.take("b", huge)
        assert room.take("a", ONE) is None


class TestWhatIsLoaded:
    def test_a_job_gets_the_slots_that_it_had(self, loaded: Loaded):
        room = loaded.room(MACHINE)
        first = taken(room, "a", ONE, 2)
        for slot in first:
            room.give(slot)
        assert {slot.number for slot in taken(room, "a", ONE, 2)} == {0, 1}
        assert loaded.closed == []

    def test_another_job_finds_the_memory_free(self, loaded: Loaded):
        room = loaded.room(MACHINE)
        a, b = taken(room, "a", ONE, 2)
        room.give(a)
        room.take("b", ONE)
        # The slot that still runs an item of the first job is left alone.
        assert loaded.closed == [a.number]
        room.give(b)
        room.close()
        assert loaded.closed == [a.number, 0, 1]


class TestGpus:
    MACHINE = Capacity(16.0, 65_536, ("0", "1", "2", "3"))

    def test_each_slot_has_its_own(self, loaded: Loaded):
        slots = taken(loaded.room(self.MACHINE), "a", Resources(cpus=1, gpus=2))
        assert [slot.env["CUDA_VISIBLE_DEVICES"] for slot in slots] == ["0,1", "2,3"]

    def test_a_loaded_program_keeps_them_and_another_job_takes_them(self, loaded: Loaded):
        room = loaded.room(self.MACHINE)
        a, b = taken(room, "a", Resources(cpus=1, gpus=2))
        room.give(a)
        assert room.take("a", Resources(cpus=1, gpus=2)) is a
        room.give(a)
        others = taken(room, "b", Resources(cpus=1, gpus=1))
        assert sorted(slot.gpus for slot in others) == [("0",), ("1",)]
        assert b.gpus == ("2", "3")

    def test_an_item_without_any_is_told_nothing(self, loaded: Loaded):
        room = loaded.room(self.MACHINE)
        (a,) = taken(room, "a", Resources(cpus=1, gpus=4))
        room.give(a)
        assert room.take("b", ONE) is a
        assert "CUDA_VISIBLE_DEVICES" not in a.env
