"""Names of items in a folder. What this cannot prove: that a file system takes them; we have Linux here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fields import about
from tidemill.client.results.item_names import NAME_BYTES, ItemNames, UsedNames, ending_of, safe_name, safe_path
from tidemill.errors import CallerError
from tidemill.job import Item


def named(template, *items):
    """The names of items, given by their URIs or with metadata."""
    full = [Item(n, *(item if isinstance(item, tuple) else (item,))) for n, item in enumerate(items)]
    names = ItemNames(template, lambda: full)
    return [names.of(item) for item in full]


@pytest.mark.parametrize(
    ("template", "items", "names"),
    [
        ("{stem}", ["s3://raw/a/1.jpg", "gs://b/2.tar.gz", "file:///x/ü%20.TIF", "/data/4"], ["1", "2", "ü", "4"]),
        ("{stem}", ["lr=0.1", "7", "v1.2"], ["lr=0.1", "7", "v1.2"]),
        ("{name}", ["s3://raw/a/1.jpg"], ["1.jpg"]),
        ("{path}", ["s3://raw/x/a/1.jpg", "s3://raw/x/b/1.jpg"], ["a/1.jpg", "b/1.jpg"]),
        ("{path}", ["s3://raw/x/ab/1.jpg", "s3://raw/x/ac/1.jpg"], ["ab/1.jpg", "ac/1.jpg"]),
        ("{index}", ["x", "x"], ["0", "1"]),
        ("run-{lr}/{index}", [("x", {"lr": 0.1}), ("x", {"lr": "a/b"})], ["run-0.1/0", "run-a_b/1"]),
        ("{stem}{ext}", ["s3://raw/1.jpg", "s3://raw/1.npy.gz"], ["1", "1~1"]),
        ("{path}{ext}", ["x/a/1.jpg", "x/b/1.jpg", "x/b/.npy"], ["a/1", "b/1", "b/.npy_"]),
    ],
)
def test_templates(template, items, names):
    assert named(template, *items) == names


def test_uploaded_files_have_the_paths_that_they_were_found_at():
    there = f"s3://store/x/uploads/{'0a' * 32}"
    items = [(f"{there}/1.jpg", {"path": "2026/1.jpg"}), f"{there}/1.jpg", (f"{there}/2.jpg", {"path": 7})]
    assert named("{path}", *items) == ["2026/1.jpg", "1.jpg", "2.jpg"]
    assert named("{stem}", *items) == ["1", "1~1", "2"]


def test_the_lower_index_keeps_the_name():
    assert named("{stem}", "a/1.jpg", "b/1.jpg", "c/1.png") == ["1", "1~1", "1~2"]


def test_names_that_differ_in_case_only_or_in_their_unicode_form_are_one():
    assert named("{stem}", "A", "a", "é", "e\u0301", "ß", "SS") == ["A", "a~1", "é", "e\u0301~3", "ß", "SS~5"]


def test_a_name_that_a_collision_would_make_is_taken_too():
    assert named("{stem}", "a", "a~2", "a") == ["a", "a~2", "a~2~2"]


def test_no_item_is_in_the_folder_of_another():
    assert named("{path}", "x/a", "x/a/b", "x/c/d", "x/c") == ["a", "a~1/b", "c/d", "c~3"]


def test_folders_of_a_fetch_are_not_names_of_items():
    assert named("{stem}", "logs", "State") == ["logs~0", "State~1"]


HOSTILE = ["..", "/..", "s3://b/../../etc/passwd", "a\0b", "a\nb", "CON.txt", "a" * 300, "", ".", "~", "\udcff", ".git"]


def test_hostile_names():
    for template in ("{stem}", "{name}", "{path}"):
        for name in named(template, *HOSTILE):
            parts = name.split("/")
            assert all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in parts), name
            assert not name.startswith((".", "/")), name
            assert not set(name) & set('\0\n<>:"|?*\\'), name
        assert len({name.casefold() for name in named(template, *HOSTILE)}) == len(HOSTILE)


def test_a_long_name_keeps_its_ending():
    name = safe_name("é" * 200 + ".npy")
    assert name.endswith("é.npy")
    assert len(name.encode()) <= NAME_BYTES


@pytest.mark.parametrize(
    "template", ["", "x", "../{stem}", "/{stem}", "{stem}/../x", "{ext}", "{ext}{stem}", "{stem}\0"]
)
def test_templates_that_name_no_item_or_lead_out(template):
    with pytest.raises(CallerError, check=about("name", allowed="{stem}")):
        named(template, "a")


def test_a_key_that_an_item_does_not_have():
    with pytest.raises(CallerError, check=about("name", allowed="{lr}")):
        named("{seed}", ("a", {"lr": 1}))


@pytest.mark.parametrize(
    ("name", "ending"), [("a/b.npy", ".npy"), ("a.tar.gz", ".tar.gz"), ("x", ""), (".npy", ""), ("v1.2", "")]
)
def test_endings(name, ending):
    assert ending_of(name) == ending


TEXTS = st.text(alphabet=st.one_of(st.sampled_from("aA/.~1éß \0"), st.characters()), max_size=12)


@settings(max_examples=60)
@given(st.lists(TEXTS, max_size=12), st.sampled_from(["{stem}", "{name}", "{path}", "{stem}{ext}", "x/{stem}"]))
def test_every_item_has_a_place_of_its_own(uris, template):
    names = [name.casefold() for name in named(template, *uris)]
    assert len(set(names)) == len(names)
    assert not any(other.startswith(f"{name}/") for name in names for other in names)


@settings(max_examples=60)
@given(
    st.lists(TEXTS, max_size=12), st.lists(st.sampled_from([".npy", ".gz", ".tar.gz", ""]), min_size=12, max_size=12)
)
def test_items_that_are_files_have_a_place_of_their_own(uris, endings):
    names = [f"{name}{ending}".casefold() for name, ending in zip(named("{stem}{ext}", *uris), endings, strict=False)]
    assert len(set(names)) == len(names)


@settings(max_examples=60)
@given(st.lists(TEXTS, max_size=12))
def test_files_of_an_item_stay_inside_its_folder(names):
    taken = UsedNames()
    places = [taken.claim(safe_path(name), f"~{n}") for n, name in enumerate(names)]
    assert len({place.casefold() for place in places}) == len(places)
    assert all(part not in ("", ".", "..") for place in places for part in place.split("/"))
