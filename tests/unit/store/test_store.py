"""How the store treats its client's errors. tests/store shows how servers behave."""

import errno
import os

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, NotSupportedError, PermissionDeniedError

from tidemill.errors import CallerError, StoreDeniedError, StoreError
from tidemill.store import STREAM_BYTES, CreateResult, Store, Stores
from tidemill.store import store as module


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0, 0.0))
    return Store.open("memory://" if request.param == "memory" else f"file://{tmp_path}/store")


def failing(monkeypatch, name, answers):
    """Let obstore's function give these answers, one a call, and then be itself."""
    real, left, calls = getattr(obstore, name), list(answers), []

    def answer(*args, **kwargs):
        calls.append(args)
        if not left:
            return real(*args, **kwargs)
        after, error = left.pop(0)
        if after:
            real(*args, **kwargs)
        raise error

    monkeypatch.setattr(obstore, name, answer)
    return calls


EXISTS = AlreadyExistsError("already exists")
BROKEN = GenericError("connection reset")


def test_create_whose_reply_was_lost_is_ours(store, monkeypatch):
    failing(monkeypatch, "put", [(True, EXISTS)])
    assert store.create("a", b"one") == CreateResult(True, b"one")


def test_create_after_a_409_without_a_write_is_made_again(store, monkeypatch):
    calls = failing(monkeypatch, "put", [(False, EXISTS), (False, EXISTS)])
    assert store.create("a", b"one") == CreateResult(True, b"one")
    assert len(calls) == 3
    assert store.get("a") == b"one"


def test_create_that_is_refused_where_something_is_there_reads_it(store, monkeypatch):
    store.put("a", b"one")
    failing(monkeypatch, "put", [(False, PermissionDeniedError("403"))] * 2)
    assert store.create("a", b"two") == CreateResult(False, b"one")
    with pytest.raises(StoreDeniedError):
        store.create("b", b"two")


def test_create_never_claims_what_no_read_shows(store, monkeypatch):
    failing(monkeypatch, "put", [(False, EXISTS)] * 4)
    with pytest.raises(StoreError, match="does not return it"):
        store.create("a", b"one")


def test_a_failure_that_passes_is_not_seen(store, monkeypatch):
    failing(monkeypatch, "put", [(False, BROKEN), (False, BROKEN)])
    store.put("a", b"1")
    failing(monkeypatch, "get", [(False, BROKEN)])
    assert store.get("a") == b"1"


PANIC = type("PanicException", (BaseException,), {})("index out of bounds")


@pytest.mark.parametrize("error", [BROKEN, PANIC])
def test_a_failure_that_stays_has_an_end(store, monkeypatch, error):
    calls = failing(monkeypatch, "put", [(False, error)] * 10)
    with pytest.raises(StoreError, match=rf"PUT of .*a failed: .*{error}"):
        store.put("a", b"1")
    assert len(calls) == 4


def test_a_refusal_is_not_tried_again(store, monkeypatch):
    calls = failing(monkeypatch, "put", [(False, PermissionDeniedError("AccessDenied"))])
    with pytest.raises(StoreDeniedError, match="AccessDenied") as caught:
        store.put("a", b"1")
    assert len(calls) == 1
    assert caught.value.exit_code == 3


def test_a_store_without_conditional_create_is_refused(store, monkeypatch):
    failing(monkeypatch, "put", [(False, NotSupportedError("no"))])
    with pytest.raises(CallerError, match="conditional create"):
        store.create("a", b"1")


def test_a_download_can_be_stopped(store, tmp_path):
    store.put("a", b"1")
    with pytest.raises(InterruptedError):
        store.download("a", tmp_path / "target", stop=lambda: True)


@pytest.mark.parametrize("uri", ["bucket", "s3://", "ftp://x/y", "", "file://host/x"])
def test_uris_of_no_store_are_refused(uri):
    with pytest.raises(CallerError, match="s3://bucket"):
        Store.open(uri)


def test_a_uri_finds_its_store(tmp_path):
    home = Store.open(f"file://{tmp_path}/home")
    stores = Stores(home)
    assert stores.locate(f"file://{tmp_path}/home/a/b") == (home, "a/b")
    other, name = stores.locate(f"file://{tmp_path}/else/c")
    assert other.uri_of(name) == f"file://{tmp_path}/else/c"
    other.put(name, b"1")
    assert (tmp_path / "else/c").read_bytes() == b"1"
    quoted, name = stores.locate(f"file://{tmp_path}/with%20space/c")
    quoted.put(name, b"2")
    assert (tmp_path / "with space/c").read_bytes() == b"2"
    with pytest.raises(CallerError):
        stores.locate("plain/path")


@pytest.mark.parametrize("name", ["a", "a/b c", "50%", "%41", "é", "#?"])
def test_a_folder_hands_an_object_over_without_reading_it(name, tmp_path, monkeypatch):
    """Counts what the system copies, not shared blocks: the file system of a test seldom shares them."""
    store = Store.open((tmp_path / "a store").as_uri())
    data = os.urandom(STREAM_BYTES + 1)
    store.put(name, data)
    copied, copy = [], os.copy_file_range

    def counted(*of):
        copied.append(copy(*of))
        return copied[-1]

    monkeypatch.setattr(os, "copy_file_range", counted)
    assert store.download(name, tmp_path / "target") == sum(copied) == len(data)
    with (tmp_path / "target").open("r+b") as target:
        assert target.read() == data
        target.write(b"changed")
    assert store.get(name) == data


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EOPNOTSUPP])
def test_a_folder_whose_system_cannot_copy_is_read(code, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(code, os.strerror(code))

    store = Store.open((tmp_path / "store").as_uri())
    data = os.urandom(STREAM_BYTES + 1)
    store.put("a", data)
    monkeypatch.setattr(os, "copy_file_range", fail)
    assert store.download("a", tmp_path / "target") == len(data)
    assert (tmp_path / "target").read_bytes() == data


def test_a_full_disk_ends_a_copy(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "full")

    store = Store.open((tmp_path / "store").as_uri())
    store.put("a", bytes(STREAM_BYTES + 1))
    monkeypatch.setattr(os, "copy_file_range", fail)
    with pytest.raises(OSError, match="full"):
        store.download("a", tmp_path / "target")


def test_a_copy_stops_between_two_parts(tmp_path):
    store = Store.open((tmp_path / "store").as_uri())
    store.put("a", bytes(STREAM_BYTES + 1))
    with pytest.raises(InterruptedError):
        store.download("a", tmp_path / "target", stop=lambda: True)
