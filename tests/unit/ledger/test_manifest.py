"""The manifest, over memory: it reads back as written, chunk by chunk, and damage is detected."""

import hashlib
import struct
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stored import read_items, write_manifest
from tidemill import manifest
from tidemill.errors import DamagedError, StoreError
from tidemill.job import Item
from tidemill.manifest import ManifestIndex, index_name, part_name, read_chunk
from tidemill.store import Store

JOB = "tiles-00000000"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
META = st.none() | st.dictionaries(TEXT, st.none() | st.integers(-(2**53), 2**53) | TEXT | st.booleans(), max_size=3)
ITEMS = st.lists(st.tuples(TEXT, META), min_size=1, max_size=60)


@settings(max_examples=150, deadline=None)
@given(items=ITEMS, chunk_size=st.integers(1, 20), first=st.lists(st.integers(1, 5), max_size=3))
def test_what_is_written_is_read(items, chunk_size, first):
    store = Store.open("memory://")
    wanted = [Item(index, uri, meta) for index, (uri, meta) in enumerate(items)]
    info = write_manifest(store, JOB, wanted, chunk_size, first)
    assert info.items == len(items)
    assert list(read_items(store, JOB)) == wanted
    chunks = [read_chunk(store, JOB, chunk) for chunk in range(info.chunks)]
    assert [item for chunk in chunks for item in chunk] == wanted
    sizes = [len(chunk) for chunk in chunks]
    assert sizes[: len(first)] == first[: len(sizes)] or sizes[-1] < max(first)
    assert all(size <= max([chunk_size, *first]) for size in sizes)


@settings(max_examples=50, deadline=None)
@given(count=st.integers(1, 200), chunk_size=st.integers(1, 30))
def test_the_index_knows_where_each_item_is(count, chunk_size):
    store = Store.open("memory://")
    write_manifest(store, JOB, (f"u{n}" for n in range(count)), chunk_size)
    index = ManifestIndex.load(store, JOB)
    assert index.items == count
    assert sum(index.size(chunk) for chunk in range(index.chunks)) == count
    for item in {0, count - 1, count // 2}:
        assert item in {found.index for found in read_chunk(store, JOB, index.chunk_of(item))}
    with pytest.raises(IndexError):
        index.chunk_of(count)


def test_a_manifest_in_several_parts(monkeypatch):
    monkeypatch.setattr(manifest, "PART_BYTES", 2000)
    store = Store.open("memory://")
    info = write_manifest(store, JOB, (f"s3://bucket/{n * 7919 % 99991}.jpg" for n in range(2000)), 50)
    assert info.parts > 3
    assert [item.index for item in read_items(store, JOB)] == list(range(2000))
    assert read_chunk(store, JOB, 39)[-1].uri == f"s3://bucket/{1999 * 7919 % 99991}.jpg"


def test_the_same_items_are_the_same_bytes():
    first, second = Store.open("memory://"), Store.open("memory://")
    for store in (first, second):
        write_manifest(store, JOB, ["a", "b", "c"], 2)
    assert first.get(index_name(JOB)) == second.get(index_name(JOB))
    assert list(first.list("")) == list(second.list(""))


def test_of_two_manifests_at_once_the_first_stands_and_is_whole(monkeypatch):
    """Also when two parts want the same number."""
    monkeypatch.setattr(manifest, "PART_BYTES", 100)
    real = hashlib.sha256
    monkeypatch.setattr(manifest.hashlib, "sha256", lambda data: real(b"one for all"))
    store = Store.open("memory://")
    uris = [f"s3://bucket/{n * 7919 % 99991}.jpg" for n in range(100)]
    made = [write_manifest(store, JOB, uris, size) for size in (10, 7)]
    assert [(info.chunks, info.largest, info.items) for info in made] == [(10, 10, 100)] * 2
    assert [item.uri for item in read_items(store, JOB)] == uris


def test_an_index_that_is_not_the_submitted_one_is_refused():
    store = Store.open("memory://")
    made = write_manifest(store, JOB, ["a"], 1)
    assert ManifestIndex.load(store, JOB, made.sha256).items == 1
    store.put(index_name(JOB), store.get(index_name(JOB)) + bytes(24))
    with pytest.raises(DamagedError, match="SHA-256 differs"):
        ManifestIndex.load(store, JOB, made.sha256)


def test_a_manifest_of_version_0_1_is_read():
    """Its parts are counted."""
    store = Store.open("memory://")
    frames = [zstandard.compress(b'"a"\n"b"'), zstandard.compress(b'{"uri":"c","meta":{"k":1}}')]
    for number, frame in enumerate(frames):
        store.put(f"jobs/{JOB}/manifest/{number:05d}.jsonl.zst", frame)
    entries = [struct.pack("<IIIQI", 0, 0, len(frames[0]), 0, 2), struct.pack("<IIIQI", 1, 0, len(frames[1]), 2, 1)]
    store.put(f"jobs/{JOB}/manifest/index", struct.pack("<4sIQ", b"TMI1", 2, 3) + b"".join(entries))
    assert read_items(store, JOB) == [Item(0, "a"), Item(1, "b"), Item(2, "c", {"k": 1})]


def test_items_are_not_held_in_memory():
    def peak(count: int) -> int:
        store = Store.open("memory://")
        tracemalloc.start()
        write_manifest(store, JOB, (f"s3://bucket/prefix/{n:09d}.jpg" for n in range(count)), 100)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(40_000) < 2 * peak(4_000) + 2_000_000


def test_damage_is_seen():
    store = Store.open("memory://")
    write_manifest(store, JOB, [f"item {n}" for n in range(100)], 100)
    part = part_name(JOB, ManifestIndex.load(store, JOB).frame(0).part)
    data = bytearray(store.get(part))
    data[len(data) // 2] ^= 0xFF
    store.put(part, bytes(data))
    with pytest.raises(StoreError, match=r"damaged|instead of"):
        read_chunk(store, JOB, 0)


def test_a_chunk_that_is_not_there():
    store = Store.open("memory://")
    write_manifest(store, JOB, ["a"], 1)
    with pytest.raises(StoreError):
        read_chunk(store, JOB, 1)


@pytest.mark.parametrize("data", [b"", b"TMI1", b"XXXX" + bytes(12), b"TMI1\x02\0\0\0" + bytes(8)])
def test_bytes_that_are_no_index_are_refused(data):
    with pytest.raises(StoreError, match="index is"):
        ManifestIndex(data)
