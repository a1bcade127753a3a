"""The product's requirements of a store, tested on a folder, on servers that other projects wrote, and on ours.

Where a server cannot be tested (it has no logins, say), the test says so. A difference between servers is a row of
docs/cloud-facts.md.
"""

from __future__ import annotations

import os
import string
import time
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.store.front import Front
from tests.store.servers import SERVERS, Server, environment
from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.store import Store
from tidemill.store import clients as store_clients
from tidemill.store import store as module

WRITERS = 32
EVERYWHERE = ["file", "memory", *SERVERS]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server by name, started on first use."""
    running: dict[str, Server] = {}
    with ExitStack() as stack:

        def get(name: str) -> Server:
            if name not in running:
                running[name] = stack.enter_context(SERVERS[name](tmp_path_factory.mktemp(name)))
            return running[name]

        yield get


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost reply is noticed and the call repeated at once; how long the product waits is not tested here."""
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setitem(store_clients._RETRY, "max_retries", 0)


def opened(server: Server, port: int, monkeypatch: pytest.MonkeyPatch, login: tuple[str, ...] | None = None) -> Store:
    for name, value in environment(server, port).items():
        monkeypatch.setenv(name, value)
    login = login or server.login
    if server.scheme == "s3":
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", login[-1])
    monkeypatch.setattr(store_clients, "_google_login", lambda uri: lambda: {"token": login[-1], "expires_at": None})
    return Store.open(f"{server.uri}/{uuid4().hex}", user_login=server.scheme == "gs")


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, servers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Store:
    """An empty prefix of a store."""
    if request.param in ("file", "memory"):
        return Store.open(f"file://{tmp_path}/store" if request.param == "file" else "memory://")
    server = servers(request.param)
    return opened(server, server.port, monkeypatch)


@pytest.fixture(params=list(SERVERS))
def fronted(
    request: pytest.FixtureRequest, servers: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Store, Front]]:
    """The same behind a front with faults."""
    server = servers(request.param)
    front = Front(server.port)
    with front.running():
        yield opened(server, front.port, monkeypatch), front


# ---- what is there, and what is not ---------------------------------------------------------------------------------


# moto looks and writes in two steps, so that sometimes two writers win. localcloud holds a lock around both.
@pytest.mark.parametrize("store", [name for name in EVERYWHERE if name != "moto"], indirect=True)
def test_one_of_many_writers_creates(store: Store) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        for name in ("done/1", "done/2", "done/3"):
            answers = list(pool.map(lambda n, name=name: store.create(name, b"writer %d" % n), range(WRITERS)))
            assert sum(answer.ours for answer in answers) == 1
            assert {answer.content for answer in answers} == {store.get(name)}


def test_absent_objects_are_none_or_missing(store: Store) -> None:
    store.put("a/b", b"1")
    assert store.find("a/c") is None
    assert store.size("a") is None
    assert not store.exists("b")
    assert list(store.list("nothing")) == []
    assert store.page("nothing") == []
    assert store.folders("nothing") == []
    with pytest.raises(StoreMissingError, match="does not exist"):
        store.get("a/c")
    with pytest.raises(StoreMissingError):
        store.get_range("a/c", 0, 1)


def test_a_put_replaces_and_is_seen_at_once(store: Store) -> None:
    for content in (b"one", b"", b"three"):
        store.put("a", content)
        assert store.get("a") == content
        assert store.size("a") == len(content)
    [entry] = store.entries("")
    assert (entry.name, entry.size) == ("a", 5)
    assert abs(entry.modified - time.time()) < 60
    assert store.create("a", b"four").content == b"three"


def test_ranges(store: Store) -> None:
    store.put("a", bytes(range(100)))
    assert store.get_range("a", 0, 1) == b"\x00"
    assert store.get_range("a", 99, 1) == b"\x63"
    assert store.get_range("a", 40, 20) == bytes(range(40, 60))
    assert store.get_range("a", 90, 100) == bytes(range(90, 100))
    assert store.get_range("a", 0, 10**9) == bytes(range(100))
    with pytest.raises(StoreError):
        store.get_range("a", 100, 1)


def test_an_object_without_a_byte(store: Store, tmp_path: Path) -> None:
    assert store.create("empty", b"").ours
    assert store.create("empty", b"x").content == b""
    assert store.get("empty") == b""
    assert store.size("empty") == 0
    (tmp_path / "nothing").touch()
    store.upload(tmp_path / "nothing", "uploaded")
    assert store.download("uploaded", tmp_path / "target") == 0
    assert sorted(store.list("")) == ["empty", "uploaded"]


def test_a_large_object_goes_in_parts(store: Store, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    block = os.urandom(1024 * 1024)
    source.write_bytes(b"".join(block[n:] + block[:n] for n in range(37)))
    store.upload(source, "large")
    assert store.size("large") == source.stat().st_size
    assert store.download("large", target) == source.stat().st_size
    assert target.read_bytes() == source.read_bytes()
    assert store.get_range("large", 20 * 1024 * 1024, 5) == (block[20:] + block[:20])[:5]
    store.upload(source, "large")
    assert list(store.list("")) == ["large"]


# ---- names ----------------------------------------------------------------------------------------------------------

WIDE = [
    "日本語/全角\u3000空白.jpg",
    "Bildschirmfoto\u202f2026.png",
    "geschützt\u00a0.txt",
    "breitelos\u200b.bin",
    "👩\u200d👩\u200d👧/🏳️\u200d🌈.jpg",
    unicodedata.normalize("NFC", "é") + "/" + unicodedata.normalize("NFD", "é"),
    "עברית/عربى",
    "𝄞𐐷",
    "percent%2Fencoded%",
    "a=b&c=d?e#f+g;h",
    "..dots../...",
    " spaces at both ends ",
    "x" * 200,
]


@pytest.mark.parametrize("names", [[f"x{c}y" for c in string.printable if c.isprintable() and c != "/"], WIDE])
def test_any_printable_name(store: Store, names: list[str]) -> None:
    for name in names:
        store.put(f"names/{name}", name.encode())
    assert sorted(store.list("names")) == sorted(f"names/{name}" for name in names)
    for name in names:
        assert store.get(f"names/{name}") == name.encode()
        assert store.size(f"names/{name}") == len(name.encode())
    folders = {f"names/{name.partition('/')[0]}" for name in names if "/" in name}
    assert store.folders("names") == sorted(folders)


@pytest.mark.parametrize("name", ["a//b", "a/./b", "a/../b", "/a"])
def test_names_with_odd_parts_are_the_callers_mistake_or_work(store: Store, name: str) -> None:
    try:
        store.put(name, b"1")
    except CallerError:
        return
    assert store.get(name) == b"1"


# ---- listings -------------------------------------------------------------------------------------------------------


def test_listings_go_on_page_by_page_in_order(store: Store) -> None:
    names = [f"r0/{folder}/{n}" for folder in ("done", "done~", "progress") for n in range(360)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, b"1"), names))
    found = list(store.list("r0"))
    assert sorted(found) == sorted(names)
    assert sorted(store.list("r0/done")) == sorted(names[:360])
    assert store.folders("r0") == ["r0/done", "r0/done~", "r0/progress"]
    after = "r0/done/200"
    assert sorted(store.list("r0/done", offset=after)) == sorted(name for name in names[:360] if name > after)
    assert len(store.page("r0")) == (module.PAGE if store.is_object_store else len(names))
    if store.is_object_store:
        assert found == sorted(names)
        assert [entry.name for entry in store.page("r0")] == sorted(names)[: module.PAGE]
        assert [entry.name for entry in store.page("r0", offset=sorted(names)[699])] == sorted(names)[700:]


# A folder has no order, and nothing relies on one.
@pytest.mark.parametrize("store", SERVERS, indirect=True)
def test_order_is_that_of_the_bytes(store: Store) -> None:
    # No folder contains another, as versitygw keeps its objects in a folder.
    names = ["a!", "a-", "a/b", "a0", "a~", "B", "é", "z", "\uff5e", "😀"]
    for name in names:
        store.put(f"o/{name}", b"1")
    assert list(store.list("o")) == [f"o/{name}" for name in sorted(names, key=str.encode)]


# ---- logins, lost replies, throttling -------------------------------------------------------------------------------


# fake-gcs-server and moto accept every login.
@pytest.mark.parametrize("name", ["versitygw", "localcloud-aws", "localcloud-gcp"])
def test_a_wrong_login_is_refused_once(name: str, servers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = servers(name)
    front = Front(server.port)
    with front.running():
        store = opened(server, front.port, monkeypatch, login=("nonsense",))
        for call in (lambda: store.put("a", b"1"), lambda: store.create("a", b"1"), lambda: list(store.list(""))):
            front.seen.clear()
            with pytest.raises(StoreDeniedError, match="refused"):
                call()
            # A create that is refused looks whether something is there.
            assert front.seen.count(front.seen[0]) == 1


def test_a_create_whose_reply_is_lost_is_ours(fronted: tuple[Store, Front]) -> None:
    store, front = fronted
    front.faults = {"PUT": ["lost"]}
    assert store.create("a", b"ours") == (True, b"ours")
    front.faults = {"PUT": ["lost"]}
    assert store.create("a", b"theirs") == (False, b"ours")
    assert store.get("a") == b"ours"


@pytest.mark.parametrize("fault", ["lost", "cut", "503", "429", "500"])
def test_a_call_that_fails_twice_is_made_again(fronted: tuple[Store, Front], fault: str, tmp_path: Path) -> None:
    store, front = fronted
    store.put("a", b"x" * 100_000)
    front.faults = {verb: [fault, fault] for verb in ("GET", "HEAD", "PUT")}
    store.put("b", b"1")
    assert store.size("a") == 100_000
    front.faults["GET"] = [fault, fault]
    assert store.get("a") == b"x" * 100_000
    front.faults["GET"] = [fault, fault]
    assert store.download("a", tmp_path / "target") == 100_000
    front.faults["GET"] = [fault, fault]
    assert sorted(store.list("")) == ["a", "b"]


def test_a_store_that_throttles_for_ever_is_an_error_of_the_store(fronted: tuple[Store, Front]) -> None:
    store, front = fronted
    front.faults = {"PUT": ["503"] * 100, "GET": ["429"] * 100}
    for call in (lambda: store.put("a", b"1"), lambda: store.create("a", b"1"), lambda: store.get("a")):
        front.seen.clear()
        with pytest.raises(StoreError) as caught:
            call()
        assert type(caught.value) is StoreError
        assert len(front.seen) == 1 + len(module._PAUSES)


def test_an_upload_that_breaks_off_leaves_nothing(fronted: tuple[Store, Front], tmp_path: Path) -> None:
    store, front = fronted
    (tmp_path / "large").write_bytes(b"x" * 12_000_000)
    front.faults = {"POST": [""] + ["503"] * 100}
    with pytest.raises(StoreError):
        store.upload(tmp_path / "large", "large")
    front.faults = {}
    assert list(store.list("")) == []
    store.upload(tmp_path / "large", "large")
    assert store.size("large") == 12_000_000
