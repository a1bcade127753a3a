"""Sources of items. What this cannot prove: how a real store lists half a million objects."""

import io
import json
import re
import sys
from typing import Any

import pytest

from tests.stored import read_items
from tests.unit.client_fakes import pipeline, uris
from tidemill.client.items.fetch_rules import FetchRules
from tidemill.client.items.folders import translate
from tidemill.client.items.open_items import open_items
from tidemill.client.items.source import LINE_BYTES
from tidemill.client.items.spool import Spool
from tidemill.errors import CallerError
from tidemill.job import Item
from tidemill.store import Store, Stores

NO_FILES = ["work", "{uri}"]


def read(items, staged=False, cloud: Any = "local", **how):
    """What a job would hold: (uri, metadata) of each item."""
    spool = Spool(FetchRules(cloud, True) if staged else None).fill(
        open_items(items, stores=how.pop("stores", Stores()), **how)
    )
    lines = [json.loads(line) for text, _ in spool.frames([10**9]) for line in text.split(b"\n")]
    assert len(lines) == spool.count
    return [(line, None) if isinstance(line, str) else (line["uri"], line["meta"]) for line in lines]


def plain(*names):
    return [(name, None) for name in names]


TEXTS = {
    "empty lines are no items": (b"a\n\n  \nb\n\n", ["a", "b"]),
    "Windows line ends": (b"a\r\nb\r\n\r\n", ["a", "b"]),
    "a BOM": (b"\xef\xbb\xbfa\nb", ["a", "b"]),
    "no line end at the end": (b"a\nb", ["a", "b"]),
    "duplicates are kept": (b"a\na\na\n", ["a", "a", "a"]),
    "quotes, braces, backslashes and what JSON escapes": (
        b'{"uri": 1}\nC:\\x "y"\n\x01\tz\n',
        ['{"uri": 1}', 'C:\\x "y"', "\x01\tz"],
    ),
    "line ends that are not ours stay inside": ("a\u2028b\x85c\x0bd\n".encode(), ["a\u2028b\x85c\x0bd"]),
    "an item as long as one may be": (b"x" * LINE_BYTES + b"\ny", ["x" * LINE_BYTES, "y"]),
    "text that is not English": ("s3://Bilder/Käse 🧀.jpg\n".encode(), ["s3://Bilder/Käse 🧀.jpg"]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name, tmp_path):
    data, expected = TEXTS[name]
    (tmp_path / "list").write_bytes(data)
    assert read(tmp_path / "list") == plain(*expected)


WRONG = {
    "a NUL": (b"a\nb\0c\n", "l", "line 2 is 'b\\x00c', which holds a NUL"),
    "a NUL beyond the first block": (
        b"abcdefg\n" * 300_000 + b"\0\n",
        "l",
        "line 300001 is '\\x00', which holds a NUL",
    ),
    "invalid UTF-8": (b"a\n\nb\xff\n", "l", "line 3 is not UTF-8 (byte 0xff at column 2)"),
    "UTF-16": ("a\nb".encode("utf-16"), "l", "is UTF-16"),
    "a line of one MB": (b"a\n" + b"x" * 1_000_000 + b"\nb\n", "l", "line 2 is longer than 65536 bytes"),
    "one MB without any line end": (b"x" * 1_000_000, "l", "line 1 is longer than 65536 bytes"),
    "no items": (b"\n \r\n", "l", "There are no items in file"),
    "JSON lines: no JSON": (b'{"uri": "a"}\nnope\n', "l.jsonl", "line 2 is not JSON"),
    "JSON lines: NaN": (b'{"uri": "a", "x": NaN}\n', "l.jsonl", "line 1 is not JSON (NaN is not a JSON number)"),
    "JSON lines: no uri": (b'{"url": "a"}\n', "l.jsonl", 'line 1 has no text under the key "uri"'),
    "JSON lines: a number": (b"7\n", "l.jsonl", 'line 1 has no text under the key "uri"'),
    "JSON lines: a line break in a uri": (
        b'"a\\nb"\n',
        "l.jsonl",
        "line 1 is 'a\\nb', which holds a NUL or a line break",
    ),
    "JSON lines: half a character": (b'"a\\ud800"\n', "l.jsonl", "which is not UTF-8"),
    "JSON lines: nested too deep": (b"[" * 50_000 + b"\n", "l.jsonl", "line 1 is not JSON"),
    "JSON lines: an empty uri": (b'{"uri": " "}\n', "l.jsonl", "line 1 is empty"),
    "CSV: no such column": (b"uri,label\na,b\n", "l.csv", "has no column 'url'. Its columns: uri, label."),
    "CSV: a row that is too long": (b"url,label\na,b,c\n", "l.csv", "line 2 has 3 fields; the header has 2"),
    "CSV: an open quote": (b'url,label\n"a,b\n', "l.csv", "is not CSV"),
    "CSV: not UTF-8": (b"url\na\nb\xff\n", "l.csv", "is not UTF-8"),
    "CSV: only a header": (b"url,label\n", "l.csv", "There are no items"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_list_is_one_clear_error(name, tmp_path):
    data, file, message = WRONG[name]
    (tmp_path / file).write_bytes(data)
    column = "url" if file.endswith(".csv") else None
    with pytest.raises(CallerError) as error:
        read(tmp_path / file, column=column)
    assert message in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("data", [b"\x89PNG\r\n", b"x" * 1_000_000])
def test_one_file_of_data_is_not_a_list(data, tmp_path):
    (tmp_path / "image.png").write_bytes(data)
    with pytest.raises(CallerError, match=r"If the file is itself an item, give its folder\."):
        read(tmp_path / "image.png")


def test_json_lines_carry_metadata(tmp_path):
    path = tmp_path / "items.jsonl"
    path.write_bytes(b'{"uri": "a", "label": 3, "tags": ["x"]}\r\n"b"\n\n{"label": null, "uri": "c"}\n{"uri": "d"}\n')
    expected = [("a", {"label": 3, "tags": ["x"]}), ("b", None), ("c", {"label": None}), ("d", None)]
    assert read(path) == expected


def test_csv_takes_one_column_and_keeps_the_others_as_metadata(tmp_path):
    path = tmp_path / "items.csv"
    path.write_bytes(b'\xef\xbb\xbfid,uri,note\r\n1,"a,1","two\r\nlines"\r\n,,\r\n2,b,\r\n')
    assert read(path) == [("a,1", {"id": "1", "note": "two\r\nlines"}), ("b", {"id": "2", "note": ""})]
    assert read(path, column="id")[1] == ("2", {"uri": "b", "note": ""})


def test_a_format_may_be_named_and_standard_input_read(monkeypatch):
    for form, data, expected in [
        (None, b"a\nb\n", plain("a", "b")),
        ("jsonl", b'{"uri": "a", "n": 1}\n', [("a", {"n": 1})]),
        ("csv", b"uri\na\n", plain("a")),
    ]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert read("-", form=form) == expected
    with pytest.raises(CallerError, match=r"items_format is 'xml'.*text or jsonl or csv"):
        read("-", form="xml")


def test_items_with_metadata_from_python():
    assert read([Item(0, "a", {"n": 1}), "b"]) == [("a", {"n": 1}), ("b", None)]
    with pytest.raises(CallerError, match=r"items\[1\].*cannot be written as JSON"):
        read([Item(0, "a"), Item(0, "b", {"n": object()})])


def test_a_folder_is_its_files(tmp_path):
    for name in ("b/2.jpg", "b/10.jpg", "a.jpg", "c/.hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [uri for uri, _ in read(tmp_path, staged=True)]
    assert found == [f"{tmp_path}/{name}" for name in ("a.jpg", "b/10.jpg", "b/2.jpg")]


HIDDEN = ("a.jpg", ".DS_Store", ".git/HEAD", "b/.ipynb_checkpoints/a.jpg", "b/2.jpg", "b/.x.jpg")
ASKED_FOR = {
    "": ["a.jpg", "b/2.jpg"],
    "**": ["a.jpg", "b/2.jpg"],
    "*": ["a.jpg"],
    "b/?x.jpg": [],
    "b/[.]x.jpg": [],
    "**.jpg": ["a.jpg", "b/2.jpg"],
    "**/*.jpg": ["a.jpg", "b/2.jpg"],
    ".*": [".DS_Store"],
    "**/.*": [".DS_Store", "b/.x.jpg"],
    ".git/**": [".git/HEAD"],
    "**/.ipynb_checkpoints/*": ["b/.ipynb_checkpoints/a.jpg"],
}


@pytest.mark.parametrize("pattern", ASKED_FOR)
@pytest.mark.parametrize("home", ["data", ".data"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_is_hidden_is_an_item_only_where_a_dot_asks_for_it(pattern, home, scheme, tmp_path):
    for name in HIDDEN:
        (tmp_path / home / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / home / name).touch()
    source = open_items(f"{scheme}{tmp_path}/{home}/{pattern}", stores=Stores())
    found = [uri.removeprefix(f"{scheme}{tmp_path}/{home}/") for block in source for uri in block.uris]
    assert sorted(found) == ASKED_FOR[pattern]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_folder_with_nothing_but_hidden_files_says_how_to_ask_for_them(scheme, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/.x").touch()
    with pytest.raises(
        CallerError, match=r"no items in .*data/?\. 1 hidden file or folder is left out; .*data/\*\*/\.\*'"
    ):
        read(f"{scheme}{tmp_path}/data/")


@pytest.fixture
def bucket(tmp_path):
    """A store with a few objects, and the URI of its root."""
    store = Store.open(f"file://{tmp_path}/bucket")
    for name in ("p/1.jpg", "p/2.JPG", "p/a/3.jpg", "p/a/b/4.jpg", "p/a/note.txt", "q/5.jpg"):
        store.put(name, b"x")
    return store.uri


PATTERNS = {
    "p/": ["p/1.jpg", "p/2.JPG", "p/a/3.jpg", "p/a/b/4.jpg", "p/a/note.txt"],
    "p/**.jpg": ["p/1.jpg", "p/a/3.jpg", "p/a/b/4.jpg"],
    "p/*.jpg": ["p/1.jpg"],
    "p/**/[34].jpg": ["p/a/3.jpg", "p/a/b/4.jpg"],
    "p/*/*": ["p/a/3.jpg", "p/a/note.txt"],
    "?/5.jp?": ["q/5.jpg"],
    "**/[!1-4].jpg": ["q/5.jpg"],
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_prefix_or_pattern_of_a_store(pattern, bucket):
    assert sorted(read(f"{bucket}/{pattern}")) == plain(*(f"{bucket}/{name}" for name in PATTERNS[pattern]))


def test_a_pattern_that_matches_nothing_is_no_job(bucket):
    with pytest.raises(CallerError, match=r"There are no items in .*/p/\*\*\.png"):
        read(f"{bucket}/p/**.png")


def test_a_list_may_be_in_the_store(bucket, tmp_path):
    (tmp_path / "bucket" / "list.jsonl").write_bytes(b'{"uri": "a", "n": 1}\n')
    assert read(f"{bucket}/list.jsonl") == [("a", {"n": 1})]
    with pytest.raises(CallerError, match="a prefix that ends with /"):
        read(f"{bucket}/p/1.jpg")
    with pytest.raises(CallerError, match=r"does not exist\. `items` takes"):
        read(f"{bucket}/none.txt")


def test_a_pattern_is_a_whole_name():
    for pattern, name, expected in [
        ("**.jpg", "a/b.jpg", True),
        ("*.jpg", "a/b.jpg", False),
        ("a+(b).jpg", "a+(b).jpg", True),
        ("**/x", "x", True),
        ("**/x", "a/xx", False),
        ("[", "[", True),
    ]:
        assert bool(re.fullmatch(translate(pattern), name)) is expected, (pattern, name)


def test_duplicates_are_counted_exactly_and_kept():
    many = [f"s3://raw/{n}.jpg" for n in range(60_000)]
    spool = Spool(None).fill(open_items([*many, *many[:7], many[0]], stores=Stores()))
    assert spool.duplicates()[0] == 8
    assert Spool(None).fill(open_items(many, stores=Stores())).duplicates() == (0, None)


def test_a_submit_says_that_items_are_repeated():
    target, _ = pipeline()
    said: list[str] = []
    job = target.submit(NO_FILES, ["a", "b", "a"], queue="cpu", log=said.append)
    assert '1 item is a duplicate (e.g. "a"); the copy runs.' in said
    assert [item.uri for item in read_items(target.store, job.id)] == ["a", "b", "a"]


def test_metadata_is_part_of_a_jobs_identity():
    target, _ = pipeline()
    ids = {
        target.submit(NO_FILES, [Item(0, "a", meta)], queue="cpu", name="n").id for meta in (None, {"k": 1}, {"k": 2})
    }
    assert len(ids) == 3
    assert target.submit(NO_FILES, [Item(5, "a", {"k": 1})], queue="cpu", name="n").id in ids


def test_one_pass_over_a_generator_is_enough():
    target, _ = pipeline()
    job = target.submit(NO_FILES, (uri for uri in uris(10_000)), queue="cpu")
    assert [item.uri for item in read_items(target.store, job.id)] == uris(10_000)


def test_semicolons_and_tabs_separate_what_spreadsheets_of_other_countries_save(tmp_path):
    for mark in ";\t":
        path = tmp_path / "items.csv"
        path.write_text(f"uri{mark}label\na,1.jpg{mark}3,5\n")
        assert read(path) == [("a,1.jpg", {"label": "3,5"})]


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("photos/*.jpg", ["photos/1.jpg", "photos/2.jpg"]),
        ("photos/**.jpg", ["photos/1.jpg", "photos/2.jpg", "photos/a/3.jpg"]),
        ("*/[!1]*.jpg", ["photos/2.jpg"]),
        ("photos/[a].jpg", ["photos/[a].jpg"]),
    ],
)
def test_a_pattern_of_local_files_is_read_like_that_of_a_store(tmp_path, monkeypatch, pattern, found):
    for name in ("1.jpg", "2.jpg", "a/3.jpg", "note.txt"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).touch()
    if "[a]" in pattern:
        (tmp_path / pattern).write_text("photos/[a].jpg\n")  # a file that is there is a list
    monkeypatch.chdir(tmp_path)
    expected = found if "[a]" in pattern else [str(tmp_path / name) for name in found]
    assert read(pattern) == plain(*expected)


def test_a_local_pattern_without_a_folder_or_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CallerError, match=r"nowhere does not exist"):
        read("nowhere/*.jpg")
    with pytest.raises(CallerError, match=r"There are no items in \*\.png"):
        read("*.png")


class Frame:
    """A table of another library, which yields the names of its columns."""

    columns = ("uri", "label")

    def __iter__(self):
        return iter(self.columns)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (Frame(), "items is a Frame. Give a DataFrame of pandas or polars"),
        ({"uri": "a"}, "items is {'uri': 'a'}. Give a list"),
        (b"items.txt", "items is b'items.txt'. Give a list"),
        (7, "items is 7. Give a list"),
        ([{"uri": "a"}], "items[0] is {'uri': 'a'}; an item is a text (a URI or a path), a Path or a tidemill.Item"),
    ],
)
def test_what_is_not_a_list_of_items_is_one_clear_error(items, words):
    with pytest.raises(CallerError) as error:
        read(items)
    assert words in str(error.value)


def test_paths_are_items(tmp_path):
    items = [tmp_path / "1.jpg", str(tmp_path / "2.jpg"), Item(0, "s3://raw/3.jpg", {"k": 1})]
    (block,) = open_items(items, stores=Stores())
    assert block.uris == [f"{tmp_path}/1.jpg", f"{tmp_path}/2.jpg", "s3://raw/3.jpg"]
