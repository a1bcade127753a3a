"""Job specs and placeholders. Pure code; what a queue accepts is the client's business."""

import pytest

from tidemill.client.plan.spec import build_spec
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError
from tidemill.job import JobSpec, new_job_id
from tidemill.placeholders import child_variables, fill, unknown_placeholders

GOOD = {
    "name": "tiles",
    "queue": "cpu",
    "command": ["prog", "{input}"],
    "chunk_size": 5,
    "items_total": 9,
    "chunks_total": 2,
}

# key of the message, values that are wrong, words that the message must hold
WRONG = [
    ("name", {"name": "Tiles"}, ["'Tiles'", "a-z"]),
    ("name", {"name": "9tiles"}, ["'9tiles'"]),
    ("name", {"name": "a" * 42}, ["up to 40"]),
    ("name", {"name": ""}, ["''"]),
    ("command", {"command": []}, ["at least one"]),
    ("command", {"command": "prog"}, ["list"]),
    ("command", {"command": ["", "x"]}, ["non-empty"]),
    ("command", {"command": ["prog", "a\0b"]}, ["NUL"]),
    ("command", {"command": ["prog", 3]}, ["list"]),
    ("command or function", {"command": None}, ["exactly one"]),
    ("command or function", {"function": "features:extract"}, ["exactly one", "command", "function"]),
    ("function", {"command": None, "function": "features"}, ["module:function"]),
    ("attempts", {"attempts": 0}, ["1 to 10"]),
    ("attempts", {"attempts": 11}, ["1 to 10"]),
    ("timeout_seconds", {"timeout_seconds": 0}, ["unlimited"]),
    ("timeout_seconds", {"timeout_seconds": "soon"}, ["'soon'", "seconds"]),
    ("slots", {"slots": 0}, ["1 to 1024"]),
    ("chunk_size", {"chunk_size": 0}, ["1 to 1000000"]),
    ("output", {"output": "results"}, ["s3://"]),
    ("env", {"env": "A=1"}, ["a text by each name"]),
    ("env.A B", {"env": {"A B": "1"}}, ["letters"]),
    ("env.A", {"env": {"A": 1}}, ["text"]),
    ("env.TIDEMILL_X", {"env": {"TIDEMILL_X": "1"}}, ["Rename"]),
    ("env.HF_TOKEN", {"env": {"HF_TOKEN": "hf_x"}}, ["secrets"]),
    ("env.A", {"env": {"A": "AKIA0123456789ABCDEF"}}, ["secrets"]),
]


@pytest.mark.parametrize(("key", "values", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_line_that_says_what_to_do(key, values, words):
    with pytest.raises(CallerError) as caught:
        build_spec(**{**GOOD, **values})
    text = str(caught.value)
    assert key in text
    assert "\n" not in text
    assert all(word in text for word in words), text
    assert caught.value.exit_code == 2


def test_a_secret_is_not_repeated_in_the_error():
    with pytest.raises(CallerError) as caught:
        build_spec(**GOOD, env={"DB_PASSWORD": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_spec_survives_its_file_and_a_newer_key_in_it():
    spec = build_spec(**GOOD)
    text = spec.model_dump_json().replace('{"spec_version"', '{"of_tomorrow":1,"spec_version"', 1)
    assert JobSpec.model_validate_json(text) == spec


def test_a_newer_spec_version_is_refused():
    with pytest.raises(ValueError, match="spec_version"):
        JobSpec.model_validate({**GOOD, "job": "tiles-00000000", "spec_version": SPEC_VERSION + 1})


def test_the_job_id_is_the_name_and_eight_digits():
    assert build_spec(**GOOD).job.startswith("tiles-")
    assert new_job_id("a") != new_job_id("a")


def test_the_default_output_is_beside_the_jobs_and_not_in_them():
    spec = build_spec(**GOOD)
    assert spec.output_prefix("s3://b/") == f"s3://b/out/{spec.job}"
    assert build_spec(**GOOD, output="s3://o/x/").output_prefix("s3://b") == "s3://o/x"


@pytest.mark.parametrize(
    ("command", "stage", "expected"),
    [
        (["p", "{input}"], None, True),
        (["p", "--in={input}"], None, True),
        (["sh", "-c", 'p "$TIDEMILL_INPUT"'], None, True),
        (["p", "{uri}"], None, False),
        (["p"], None, False),
        (["p"], True, True),
        (["p", "{input}"], False, False),
    ],
)
def test_an_input_is_fetched_only_if_used(command, stage, expected):
    assert build_spec(**{**GOOD, "command": command, "stage_input": stage}).stages_input is expected


def test_placeholders_are_filled_once():
    values = {"uri": "s3://b/{index}", "index": "7"}
    assert fill(["p", "{uri}", "x{index}y{index}", "{other}", "{input}"], values) == [
        "p",
        "s3://b/{index}",
        "x7y7",
        "{other}",
        "{input}",
    ]


def test_braces_of_a_program_are_named_and_left_alone():
    command = ["awk", "{print}", "{input}", "{ spaced }", "{print}"]
    assert unknown_placeholders(command) == ["print"]
    assert fill(command, {"input": "/f"})[1:3] == ["{print}", "/f"]


def test_placeholders_are_variables_too():
    assert child_variables({"output_uri": "u", "index": "3"}) == {"TIDEMILL_OUTPUT_URI": "u", "TIDEMILL_INDEX": "3"}
