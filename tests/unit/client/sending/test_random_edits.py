"""Random edits of code, inputs, settings and lists between runs with `changed`, some of which are killed: each item has
the value that a run from nothing would give it, and none runs whose outcome stood before.

A test runs the items itself, and kills a submit between two writes. What this cannot prove: a kill within a write."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.unit.client.sending.shared_jobs import Bench

EDITS = 25


class KilledError(BaseException):
    """The process dies here."""


class World:
    """A bench, and the edits that a person makes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.bench = Bench(folder)
        self.bench.write(**{name: name for name in "abcdefgh"})
        self.items, self.scale = self.bench.paths(), "1"
        self.writes = 0
        store = self.bench.pipeline.store
        for name in ("put", "create"):
            setattr(store, name, self._dying(getattr(store, name)))

    def _dying(self, call):
        def write(*arguments, **named):
            self.writes -= 1
            if self.writes == 0:
                raise KilledError
            return call(*arguments, **named)

        return write

    def edit(self) -> None:
        """Change something."""
        one = self.random.choice(self.items)
        text = str(self.random.randrange(4))
        kind = self.random.randrange(8)
        if kind == 0:
            (self.bench.code / "w.py").write_text(text)
        elif kind == 1:
            self.scale = text
        elif kind == 2:
            self.items = self.bench.write(**{f"n{self.random.randrange(30)}": text})
        elif kind == 3:
            os.utime(one)
        elif kind == 4:
            self.random.shuffle(self.items)
        elif kind == 5 and len(self.items) > 4:
            self.items.remove(one)
        elif kind == 6:
            self.items.append(one)
        else:
            Path(one).write_text(text)

    def keys(self) -> dict[str, list[str]]:
        """By item, what its value would be now."""
        return {uri: self.bench.made_of(uri, {"SCALE": self.scale}) for uri in self.items}

    def submit(self, fate: int):
        """Submit; by fate the process dies before one of its writes, and the command is typed again."""
        settings = {"items": self.items, "env": {"SCALE": self.scale}, "changed": True}
        self.writes = fate
        try:
            return self.bench.submit(**settings)
        except KilledError:
            return self.bench.submit(**settings)
        finally:
            self.writes = 0


@pytest.mark.parametrize("seed", range(8))
def test_results_are_those_of_a_run_from_nothing_and_what_stood_does_not_run(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    stood: dict[str, list[str]] = {}
    shared = 0
    for _ in range(EDITS):
        for _ in range(world.random.randrange(3)):
            world.edit()
        keys = world.keys()
        job = world.submit(world.random.randrange(-15, 15))
        world.bench.ran.clear()
        fails = world.random.sample(world.items, 1) if world.random.random() < 0.2 else []
        most = world.random.randrange(4) if world.random.random() < 0.3 else None
        world.bench.run(job, fails=fails, most=most)
        outcomes = list(job.results())
        good = {one.uri: one.value for one in outcomes if one.status == "succeeded"}
        assert [uri for uri in world.bench.ran if stood.get(uri) == keys[uri]] == []
        assert good == {uri: keys[uri] for uri in good}
        if most is None:
            assert [one.uri for one in outcomes] == world.items
            assert job.status().succeeded == len([one for one in outcomes if one.status == "succeeded"])
        shared += sum(one.origin is not None for one in outcomes)
        # Of an item that is twice in a list, each copy has an outcome of its own.
        copies = Counter(one.uri for one in outcomes if one.status == "succeeded")
        stood = {uri: keys[uri] for uri, count in copies.items() if count == world.items.count(uri)}
    assert shared > EDITS
