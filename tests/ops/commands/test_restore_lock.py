"""A restore beside other runs on the stack, on a bucket in memory that lets others act between any two calls. That the
engine heeds the lock, and both clouds' own buckets, are in tests/engine/backends/test_restore.py."""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Callable, Iterator

import click
import pytest

from ops.backend import Bucket, Version
from ops.backend.restore import Backend

STATE = ".pulumi/stacks/tidemill/vision-dev.json"
LOCKS = ".pulumi/locks/organization/tidemill/vision-dev/"
LOCK = {"pid": 7, "username": "ann", "hostname": "laptop", "timestamp": "2026-11-26T10:00:00Z"}


class Killed(BaseException):
    """The process ends here."""


class InMemory(Bucket):
    refusals = ()

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.kept: list[tuple[Version, bytes]] = []
        self.writes: list[str] = []
        self.before_write: Callable[[str], None] = lambda _: None
        self.dead = False

    def versions(self, prefix: str) -> Iterator[Version]:
        return iter([version for version, _ in self.kept if version.name.startswith(prefix)])

    def read(self, version: Version) -> bytes:
        return next(content for each, content in self.kept if each.id == version.id)

    def write(self, name: str, content: bytes) -> None:
        self.before_write(name)
        self._change(name, content)

    def delete(self, name: str) -> None:
        if not self.dead:
            self._change(name, None)

    def live(self, prefix: str = "") -> dict[str, bytes]:
        return {each.name: content for each, content in self.kept if each.live and each.name.startswith(prefix)}

    def _change(self, name: str, content: bytes | None) -> None:
        older = [(each, kept) for each, kept in self.kept if not (each.name == name and each.live)]
        was = [(Version(e.name, e.id, e.written, live=False), kept) for e, kept in self.kept if (e, kept) not in older]
        self.kept = older + was
        if content is not None:
            number = next(self._numbers)
            at = datetime.datetime(2026, 11, 26, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number)
            self.kept.append((Version(name, str(number), at, live=True), content))


def state(resources: int) -> bytes:
    return json.dumps({"version": 3, "checkpoint": {"latest": {"resources": [{}] * resources}}}).encode()


@pytest.fixture
def bucket():
    made = InMemory()
    made.write(".pulumi/meta.yaml", b"version: 1\n")
    made.write(STATE, state(3))
    made.write(STATE, b"{half")
    return made


def restored(bucket: InMemory, *, unlock: bool = False) -> list[str]:
    return Backend(bucket, ".pulumi/", "vision-dev").restored("1", unlock=unlock)


def test_a_stack_that_the_bucket_does_not_have_is_told_with_the_nearest(bucket):
    with pytest.raises(
        click.UsageError, match=r"--stack visoin-dev: the bucket has no version.*Did you mean vision-dev\?"
    ):
        Backend(bucket, ".pulumi/", "visoin-dev")
    with pytest.raises(click.UsageError) as caught:
        Backend(bucket, ".pulumi/", "climate-dev")
    assert "Did you mean climate-dev" not in str(caught.value)


@pytest.mark.parametrize("unlock", [False, True])
def test_an_up_that_begins_meanwhile_keeps_its_state(bucket, unlock):
    def begins(name: str) -> None:
        if name.startswith(LOCKS):
            bucket.before_write = lambda _: None
            bucket.write(f"{LOCKS}up.json", json.dumps(LOCK).encode())

    bucket.before_write = begins
    with pytest.raises(click.ClickException, match="is locked: by ann on laptop"):
        restored(bucket, unlock=unlock)
    assert bucket.live(STATE) == {STATE: b"{half"}
    assert [*bucket.live(LOCKS)] == [f"{LOCKS}up.json"], "its own lock is gone, the other one stays"


def test_an_up_that_comes_later_sees_the_lock(bucket):
    seen = []
    bucket.before_write = lambda name: seen.extend(bucket.live(LOCKS).values()) if name == STATE else None
    restored(bucket)
    assert {key: type(value) for key, value in json.loads(seen[0]).items()} == {key: type(LOCK[key]) for key in LOCK}
    assert (bucket.live(STATE), bucket.live(LOCKS)) == ({STATE: state(3)}, {})


@pytest.mark.parametrize("at", [LOCKS, STATE])
def test_one_that_is_killed_is_typed_again(bucket, at):
    bucket._change(f"{LOCKS}lost.json", json.dumps(LOCK).encode())

    def dies(name: str) -> None:
        if name.startswith(at):
            bucket.dead = True
            raise Killed

    bucket.before_write = dies
    with pytest.raises(Killed):
        restored(bucket, unlock=True)
    bucket.before_write, bucket.dead = lambda _: None, False
    assert bucket.live(STATE) == {STATE: b"{half"}
    with pytest.raises(click.ClickException, match="--unlock"):
        restored(bucket)
    restored(bucket, unlock=True)
    assert (bucket.live(STATE), bucket.live(LOCKS)) == ({STATE: state(3)}, {})


def test_what_a_lock_says_steers_no_terminal(bucket):
    """Whoever may deploy may write one."""
    hostile = {**LOCK, "username": "ann\x1b[2J\nlocked: by nobody"}
    bucket.write(f"{LOCKS}up.json", json.dumps(hostile).encode())
    (told,) = [
        line for line in Backend(bucket, ".pulumi/", "vision-dev").listing().split("\n") if line.startswith("locked")
    ]
    assert told.startswith("locked: by ann\N{REPLACEMENT CHARACTER}[2J locked: by nobody on laptop")
