"""Local files on their way into the job store. What this cannot prove: what a cloud's store does with a login that
expires; tests/e2e has the way from a folder to an outcome."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError

from tests.stored import read_items
from tests.unit.client_fakes import pipeline
from tidemill.cli.transfers import asking, watching
from tidemill.client import Pipeline
from tidemill.client.items import local_files as files_module
from tidemill.client.items.local_files import LocalFile, look
from tidemill.client.upload import sender as sender_module
from tidemill.client.upload import session as session_module
from tidemill.client.upload.hashes import Hashes
from tidemill.client.upload.inventory import Inventory
from tidemill.client.upload.meter import Meter
from tidemill.client.upload.session import Amount
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError, StoreDeniedError
from tidemill.job import Item
from tidemill.store import Store
from tidemill.store import store as store_module

STAGED = ["wc", "{input}", "{output}"]
NAMES = ["wc", "{uri}", "{output}"]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(store_module, "_PAUSES", ())


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the uploads that were written."""
    written: list[str] = []
    real = obstore.put

    def put(store: Any, name: str, data: Any, **options: Any) -> Any:
        if name.startswith("uploads/"):
            written.append(name)
        return real(store, name, data, **options)

    monkeypatch.setattr(obstore, "put", put)
    return written


def folder(tmp_path: Path, **contents: str) -> Path:
    """A folder of files by their paths, with `__` for a slash, none of them new."""
    for name, text in contents.items():
        path = tmp_path / "data" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        aged(path)
    return tmp_path / "data"


def aged(path: Path) -> None:
    old = time.time() - 3600
    os.utime(path, (old, old))


def name_of(text: str, name: str) -> str:
    return f"uploads/{hashlib.sha256(text.encode()).hexdigest()}/{name}"


def submit(target: Pipeline, items: Any, command: list[str] = STAGED, **more: Any) -> list[Item]:
    return read_items(target.store, target.submit(command, items, queue="cpu", **more).id)


def test_a_folder_becomes_objects_named_by_content_and_name(tmp_path, puts):
    target, _ = pipeline()
    said: list[str] = []
    items = submit(target, folder(tmp_path, a="one", b__a="two", b__c="one"), log=said.append)
    expected = [(name_of("one", "a"), None), (name_of("two", "a"), "b/a"), (name_of("one", "c"), "b/c")]
    assert [(item.uri, (item.meta or {}).get("path")) for item in items] == [
        (target.store.uri_of(name), path) for name, path in expected
    ]
    assert sorted(puts) == sorted(name for name, _ in expected)
    assert target.store.get(name_of("two", "a")) == b"two"
    assert "Uploading 3 files (9 B)." in said


def test_nothing_is_sent_or_read_twice(tmp_path, puts, monkeypatch):
    target, _ = pipeline()
    data = folder(tmp_path, a="one", same__a="one", b="two")
    first = submit(target, data)
    assert sorted(puts) == sorted([name_of("one", "a"), name_of("two", "b")])
    monkeypatch.setattr(sender_module, "Reading", None)
    assert submit(target, data) == first
    assert len(puts) == 2


def test_a_named_job_is_the_same_job_when_its_files_are_the_same(tmp_path):
    target, _ = pipeline()
    data = folder(tmp_path, a="one")
    job = target.submit(STAGED, data, queue="cpu", name="n")
    assert target.submit(STAGED, data, queue="cpu", name="n").id == job.id
    (data / "a").write_text("two")
    assert target.submit(STAGED, data, queue="cpu", name="n").id != job.id


def test_lists_and_arguments_may_mix_paths_and_uris_and_keep_their_metadata(tmp_path, monkeypatch):
    target, _ = pipeline()
    folder(tmp_path, a="one", b="two", c="three")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.jsonl").write_text(
        '{"uri": "data/a", "label": 1}\n"s3://raw/x"\n{"uri": "data/b", "path": "own"}\n'
        f'"file://{tmp_path}/data/c"\n'
    )
    found = [(item.uri.rpartition("/")[2], item.meta) for item in submit(target, "list.jsonl")]
    last = ("c", {"path": f"file://{tmp_path}/data/c"})
    assert found == [("a", {"path": "data/a", "label": 1}), ("x", None), ("b", {"path": "own"}), last]


def test_names_of_items_stay_names(tmp_path, monkeypatch, puts):
    target, _ = pipeline()
    folder(tmp_path, a="one")
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    assert [item.uri for item in submit(target, ["data/a"], NAMES, log=said.append)] == ["data/a"]
    assert puts == []
    assert any("stays here" in text for text in said)
    assert submit(target, "data", NAMES)[0].uri.endswith(name_of("one", "a"))


CODE = """
import functools
def of_a_file(input, output): ...
def of_a_name(item): ...
@functools.cache
def wrapped(item): ...
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with functions, and a current folder with a file."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "f.py").write_text(CODE)
    monkeypatch.chdir(folder(tmp_path, a="one"))
    return tmp_path / "code"


def mapped(function: str, code: Path | None, *items: str) -> list[str]:
    target, _ = pipeline(max_spec=SPEC_VERSION)
    job = target.map(function, list(items), queue="cpu", code=code, progress=False).job
    return [item.uri for item in read_items(target.store, job.id)]


def test_a_function_that_takes_a_file_gets_files_of_this_machine(code, puts):
    assert mapped("f:of_a_file", code, "a", "s3://raw/b") == [f"memory:///{name_of('one', 'a')}", "s3://raw/b"]
    assert puts == [name_of("one", "a")]
    with pytest.raises(CallerError, match="no file of this machine"):
        mapped("f:of_a_file", code, "b")


def test_a_function_that_would_get_a_relative_path_is_refused(code, puts):
    with pytest.raises(CallerError, match="gets only its name") as error:
        mapped("f:of_a_name", code, "a")
    assert (error.value.what, "`input`" in error.value.fix) == ("items", True)
    # A path that may be on a mount of the machines, names, and what cannot be known.
    path = os.path.abspath("a")
    assert mapped("f:of_a_name", code, path, "a") == [path, "a"]
    assert mapped("f:of_a_name", code, "tile-1") == ["tile-1"]
    assert mapped("f:wrapped", code, "a") == ["a"]
    assert mapped("os.path:basename", None, "a") == ["a"]
    assert puts == []


def test_large_files_are_sent_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(sender_module, "SMALL_BYTES", 10)
    target, _ = pipeline()
    text = "x" * 11_000_000
    items = submit(target, folder(tmp_path, large=text))
    assert target.store.get(name_of(text, "large")) == text.encode()
    assert items[0].uri == target.store.uri_of(name_of(text, "large"))


# ---- what cannot be sent -------------------------------------------------------------------------------------------


def broken_link(data: Path) -> None:
    (data / "x").symlink_to("nowhere")


def link_out(data: Path) -> None:
    (data.parent / "secret").write_text("s")
    (data / "x").symlink_to(data.parent / "secret")


def login(data: Path) -> None:
    (data / ".aws").mkdir()
    (data / ".aws/config").write_text("")


def settings(data: Path) -> None:
    (data / ".env").write_text("")


def private_key(data: Path) -> None:
    (data / "server.pem").write_text("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n")


def google_key(data: Path) -> None:
    """Under the name that Google gives it."""
    key = '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADAN"}'
    (data / "vision-prod-0123456789ab.json").write_text(key)


def pipe(data: Path) -> None:
    os.mkfifo(data / "x")


def line_break(data: Path) -> None:
    (data / "x\ny").write_text("")


def control(data: Path) -> None:
    (data / "x\ty").write_text("")


def not_utf8(data: Path) -> None:
    Path(os.fsdecode(os.fsencode(data) + b"/x\xff")).write_text("")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (broken_link, "is a link to nowhere, which does not exist"),
        (link_out, "out of the folder"),
        (private_key, "may hold secrets"),
        (google_key, "may hold secrets"),
        (pipe, "is not a plain file"),
        (line_break, "control character"),
        (control, "control character"),
        (not_utf8, "not UTF-8"),
    ],
)
@pytest.mark.parametrize("command", [STAGED, NAMES])
def test_what_cannot_be_sent_is_refused_before_anything_is(tmp_path, puts, spoil, message, command):
    target, backend = pipeline()
    data = folder(tmp_path, a="one")
    spoil(data)
    with pytest.raises(CallerError) as error:
        submit(target, data, command)
    assert message in str(error.value)
    assert error.value.what == "items"
    assert puts == []
    assert backend.arrays == []


@pytest.mark.parametrize(("spoil", "pattern"), [(login, ".aws/*"), (settings, "**/.*")])
def test_a_hidden_login_stays_here_and_is_refused_where_a_pattern_asks_for_it(tmp_path, puts, spoil, pattern):
    target, _ = pipeline()
    data = folder(tmp_path, a="one")
    spoil(data)
    with pytest.raises(CallerError, match="may hold secrets"):
        submit(target, data / pattern, STAGED)
    assert puts == []
    said: list[str] = []
    submit(target, data, STAGED, log=said.append)
    assert [name.rpartition("/")[2] for name in puts if "uploads/" in name] == ["a"]
    assert said[0].startswith("1 hidden file or folder is left out; ")


def test_a_file_that_is_named_by_itself_is_sent(tmp_path, puts):
    """Who names a key means it; a certificate is none."""
    target, _ = pipeline()
    data = folder(tmp_path, a="one")
    (data / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nMIIEvQIBADAN\n")
    submit(target, data, STAGED)
    private_key(data)
    target.submit(STAGED, [str(data / "server.pem")], queue="cpu")
    assert sorted(name.rpartition("/")[2] for name in puts if "uploads/" in name) == ["a", "ca.pem", "server.pem"]


def test_an_empty_folder_has_no_items(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(CallerError, match="no items"):
        submit(pipeline()[0], tmp_path / "data")


def test_a_path_that_is_not_there_and_a_folder_as_an_item_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder(tmp_path, a="one")
    for item, message in (("missing.jpg", "no file of this machine"), ("data", "`items` takes a folder")):
        with pytest.raises(CallerError, match=message):
            submit(pipeline()[0], [item])


def test_a_file_that_may_not_be_read_is_refused_before_anything_is_sent(tmp_path, puts, monkeypatch):
    data = folder(tmp_path, a="one", b="two")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("b"))
    with pytest.raises(CallerError, match=r"'.*/data/b' cannot be read: Permission denied"):
        submit(pipeline()[0], data)
    assert puts == []


@pytest.mark.parametrize("small", [4 * 1024 * 1024, 0])
def test_a_file_that_changes_while_it_is_read_is_an_error_and_has_no_object(tmp_path, monkeypatch, small):
    monkeypatch.setattr(sender_module, "SMALL_BYTES", small)
    target, backend = pipeline()
    data = folder(tmp_path, a="one")
    real = files_module.Reading.blocks

    def blocks(self, size):
        yield from real(self, size) if (data / "a").stat().st_size != 3 else [b"one"]
        (data / "a").write_text("four")
        list(real(self, size))

    monkeypatch.setattr(files_module.Reading, "blocks", blocks)
    with pytest.raises(CallerError, match="changed while it was read"):
        submit(target, data)
    assert list(target.store.list("uploads")) == []
    assert backend.arrays == []


@pytest.mark.parametrize("small", [4 * 1024 * 1024, 0])
def test_a_file_that_is_written_again_with_its_old_time_is_sent_again(tmp_path, monkeypatch, small):
    """As `rsync --inplace -t` does. The kernel's clock ticks every few milliseconds, so a change of the time that is
    in sight is waited for."""
    monkeypatch.setattr(sender_module, "SMALL_BYTES", small)
    target, _ = pipeline()
    path = folder(tmp_path, a="one") / "a"
    submit(target, path.parent)
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        with path.open("r+") as file:
            file.write("two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert submit(target, path.parent)[0].uri == target.store.uri_of(name_of("two", "a"))
    assert target.store.get(name_of("one", "a")) == b"one"


@pytest.mark.parametrize("small", [4 * 1024 * 1024, 0])
def test_a_hash_that_is_remembered_wrongly_names_no_object(tmp_path, monkeypatch, small):
    monkeypatch.setattr(sender_module, "SMALL_BYTES", small)
    target, _ = pipeline()
    data = folder(tmp_path, a="two")
    wrong = hashlib.sha256(b"one").hexdigest()
    monkeypatch.setattr(Hashes, "find", lambda self, file: wrong)
    items = submit(target, data)
    assert items[0].uri == target.store.uri_of(name_of("two", "a"))
    assert list(target.store.list("uploads")) == [name_of("two", "a")]
    assert target.store.get(name_of("two", "a")) == b"two"


def test_names_that_differ_in_case_only_are_two_objects(tmp_path):
    target, _ = pipeline()
    items = submit(target, folder(tmp_path, A="one", a="two"))
    assert [target.store.get(item.uri.partition("///")[2] or item.uri[10:]) for item in items] == [b"one", b"two"]


def test_a_login_that_expires_half_way_leaves_what_is_sent_and_says_how_to_go_on(tmp_path, monkeypatch, puts):
    target, backend = pipeline(readable=[])
    data = folder(tmp_path, **{f"f{n}": str(n) for n in range(9)})
    real, left = obstore.put, [5]

    def expired(store, name, content, **options):
        if name.startswith("uploads/"):
            left[0] -= 1
            if left[0] < 0:
                raise PermissionDeniedError("<Code>ExpiredToken</Code><Message>The token has expired</Message>")
        return real(store, name, content, **options)

    monkeypatch.setattr(obstore, "put", expired)
    with pytest.raises(StoreDeniedError) as error:
        submit(target, data)
    assert error.value.code == "ExpiredToken"
    assert "log in again" in error.value.fix
    assert "the same command sends the rest" in error.value.fix
    assert backend.arrays == []
    left[0] = 4
    assert len(submit(target, data)) == 9
    assert len(set(puts)) == 9


def test_of_many_files_few_are_looked_at_ahead(tmp_path, monkeypatch):
    """So a million files take no more memory than a thousand."""
    monkeypatch.setattr(sender_module, "_WINDOW", 8)
    seen, ahead = 0, 0

    def files() -> Iterator[LocalFile]:
        nonlocal seen
        for n in range(100):
            seen += 1
            (path := tmp_path / str(n)).write_text(str(n))
            yield look(str(path))

    store = Store.open("memory://")
    inventory = Inventory(store, None)
    inventory.load(100)
    sender = sender_module.Sender(store, inventory, Hashes(tmp_path / "db"), Meter(100, 100))
    for sent, _ in enumerate(sender.send(files()), start=1):
        ahead = max(ahead, seen - sent)
    assert (seen, ahead) == (100, 7)


# ---- how much ------------------------------------------------------------------------------------------------------


def test_a_large_upload_is_confirmed_before_it_begins(tmp_path, monkeypatch, puts):
    monkeypatch.setattr(session_module, "ASK_FILES", 1)
    target, _ = pipeline()
    data = folder(tmp_path, a="one", b="two")

    def no(amount):
        assert (amount.files, amount.bytes, amount.there) == (2, 6, 0)
        raise CallerError("no")

    with pytest.raises(CallerError, match="no"):
        submit(target, data, confirm=no)
    assert puts == []
    submit(target, data)
    # What is there already is not asked about.
    submit(target, data, confirm=no)


# ---- what the store has --------------------------------------------------------------------------------------------


def test_an_upload_past_half_of_its_life_is_sent_again(tmp_path, puts, monkeypatch):
    target, backend = pipeline(expire_jobs_after_days=30)
    data = folder(tmp_path, a="one")
    submit(target, data)
    day = 86_400
    monkeypatch.setattr(backend, "now", lambda: time.time() + 14 * day)
    submit(target, data)
    assert len(puts) == 1
    monkeypatch.setattr(backend, "now", lambda: time.time() + 16 * day)
    submit(target, data)
    assert len(puts) == 2


def test_an_upload_that_a_long_attempt_would_lose_is_sent_again(tmp_path, puts, monkeypatch):
    target, backend = pipeline(expire_jobs_after_days=30, max_spec=SPEC_VERSION)
    data, day, said = folder(tmp_path, a="one"), 86_400, list[str]()
    submit(target, data)
    monkeypatch.setattr(backend, "now", lambda: time.time() + 4 * day)
    submit(target, data, state=True, timeout_seconds=25 * day, log=said.append)
    assert len(puts) == 1
    submit(target, data, state=True, timeout_seconds=27 * day, log=said.append)
    assert len(puts) == 2
    assert not [words for words in said if "deletes" in words]


def test_a_job_that_may_outlive_itself_is_warned_of(tmp_path, puts):
    """The stack is of an earlier version, which let jobs expire sooner than their attempts may end."""
    target, _ = pipeline(expire_jobs_after_days=14, max_spec=SPEC_VERSION)
    said: list[str] = []
    submit(target, folder(tmp_path, a="one"), state=True, timeout_seconds=14 * 86_400, log=said.append)
    assert [words for words in said if "deletes" in words] == [
        (
            "The stack deletes what a job needs 14 days after it was sent (expire_jobs_after_days), and an attempt may "
            "take 336 h (`timeout_seconds`): what is not done by then is lost."
        )
    ]


class Pages(Store):
    """A store in memory whose listings are an object store's: in pages of three."""

    @property
    def is_object_store(self):
        return True

    def page(self, prefix, offset=None):
        return sorted(self.entries(prefix, offset))[:3]


@pytest.mark.parametrize(("files", "listed"), [(1, False), (40, True)])
def test_the_cheaper_of_listing_and_asking_is_done(monkeypatch, files, listed):
    monkeypatch.setattr("tidemill.client.upload.inventory.PAGE", 3)
    monkeypatch.setattr("tidemill.client.upload.inventory._RANGES", 1)
    plain = Store.open("memory://")
    store = Pages(plain._backend, plain.uri)
    names = [name_of(str(n), "x") for n in range(60)]
    for name in names:
        store.put(name, b"")
    found = Inventory(store, None)
    found.load(files)
    assert found.listed is listed
    assert all(found.has(name) for name in names)
    assert not found.has(name_of("else", "x"))
    assert found.claim(name_of("else", "x"))
    assert not found.claim(name_of("else", "x"))


# ---- what is known of this machine's files -------------------------------------------------------------------------


def test_a_hash_is_known_until_the_file_changes(tmp_path):
    path = folder(tmp_path, a="one") / "a"
    known = Hashes(tmp_path / "db")
    known.note(look(str(path)), "ab" * 32)
    known.close()
    known = Hashes(tmp_path / "db")
    assert known.find(look(str(path))) == "ab" * 32
    for changed in ({"size": 4}, {"inode": 2**64 - 1}, {"ctime_ns": 1}):
        assert known.find(look(str(path))._replace(**changed)) is None
    os.utime(path)
    fresh = look(str(path))
    assert known.find(fresh) is None
    known.note(fresh, "cd" * 32)
    known.save()
    assert known.find(fresh) is None, "it may change again at the same time"


def test_a_cache_that_cannot_be_used_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "db").write_bytes(b"x" * 5000)
    file = LocalFile("/x", 1, 1, 1, 1)
    for path in (tmp_path / "db", tmp_path / "db", tmp_path / "db" / "below"):
        known = Hashes(path)
        known.note(file, "ab" * 32)
        known.close()
    with sqlite3.connect(tmp_path / "db") as db:
        assert db.execute("SELECT count(*) FROM files").fetchone() == (1,)


# ---- at the command line -------------------------------------------------------------------------------------------


def test_without_a_terminal_a_large_upload_needs_a_yes():
    with pytest.raises(CallerError, match=r"2 files \(3 MiB\) would be uploaded") as error:
        asking(False)(Amount(2, 3 * 2**20))
    assert error.value.what == "--yes"
    asking(True)(Amount(2, 3 * 2**20))


def test_progress_is_a_line_now_and_then_without_a_terminal(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("tidemill.cli.transfers.time.monotonic", lambda: now[0])
    meter = Meter(4, 4 * 2**20)
    with watching(meter):
        meter.add(1, 2**20)
        now[0] = 11.0
        meter.add(1, 2**20)
        meter.add(1, 2**20)
    assert capsys.readouterr().err == "2/4 files, 2 MiB of 4 MiB, 50 %\n"
