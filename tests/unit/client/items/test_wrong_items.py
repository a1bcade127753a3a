"""Several items that cannot be any are told at once."""

import pytest

from tests.unit.client_fakes import pipeline
from tidemill.client.items.source import WrongItems
from tidemill.errors import CallerError

COMMAND = ["python3", "features.py", "{input}", "{output}"]


def refused(items):
    target, backend = pipeline()
    with pytest.raises(CallerError) as told:
        target.submit(COMMAND, items, queue="cpu")
    assert (told.value.what, list(target.store.list("uploads")), backend.names) == ("items", [], [])
    return str(told.value)


def test_all_wrong_names_of_a_folder_are_told_at_once(tmp_path):
    """A line break cannot be in a list, a tab not in the name of an object."""
    for name in ("new\nline", "plain.jpg", "tab\there", "also\ttab"):
        (tmp_path / name).touch()
    told = refused(tmp_path)
    assert told.startswith("items: 3 are wrong: ")
    assert [name in told for name in ("new\\nline", "tab\\there", "also\\ttab", "plain")] == [True, True, True, False]
    assert told.endswith("Rename it.")


def test_wrong_files_that_are_named_one_by_one_are_told_at_once(tmp_path):
    paths = [tmp_path / name for name in ("tab\there", "plain.jpg", "also\ttab")]
    for path in paths:
        path.touch()
    told = refused([str(path) for path in paths])
    assert ("tab\\there" in told, "also\\ttab" in told, "items: 2 are wrong" in told) == (True, True, True)


def test_a_list_tells_its_first_ten(tmp_path):
    items = tmp_path / "items.txt"
    items.write_text("s3://raw/0.jpg\n" + "".join(f"s3://raw//{n}.jpg\n" for n in range(12)))
    told = refused(items)
    assert "the first 10 are wrong" in told
    assert [f"line {n} " in told for n in (1, 2, 11, 12)] == [False, True, True, False]


def test_one_error_is_told_as_it_is():
    wrong, error = WrongItems(), CallerError("items[3] is empty.", "Leave it out.", what="items")
    wrong.check()
    wrong.add(error)
    with pytest.raises(CallerError) as told:
        wrong.check()
    assert told.value is error
