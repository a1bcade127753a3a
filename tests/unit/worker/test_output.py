"""Lines of programs as the worker writes them: labels, caps and tails."""

import json

import pytest

from tidemill.worker import output as worker_output
from tidemill.worker.output import ITEM_BYTES, LINE_BYTES, TAIL_BYTES, ItemOutput, redact, redacted_end

SECRET = "0123456789-abcdefghij-\u00fcvwxyz"


@pytest.fixture
def written(capsysbinary):
    return lambda: [json.loads(line) for line in capsysbinary.readouterr().out.splitlines()]


def test_lines_carry_their_item(written):
    output = ItemOutput({"job": "j", "item": 3})
    output.begin(2)
    output.feed("stdout", b"one\ntw")
    output.feed("stderr", b"bad\r\n")
    output.feed("stdout", b"o\nrest")
    output.end()
    assert [(line["stream"], line["message"], line["attempt"], line["item"]) for line in written()] == [
        ("stdout", "one", 2, 3),
        ("stderr", "bad", 2, 3),
        ("stdout", "two", 2, 3),
        ("stdout", "rest", 2, 3),
    ]


def test_any_bytes_are_a_line(written):
    output = ItemOutput({})
    output.feed("stdout", b"\xff\x00\xfe\n")
    assert written()[0]["message"] == "\ufffd\x00\ufffd"


def test_a_line_without_an_end_is_cut_into_lines(written):
    output = ItemOutput({})
    output.feed("stdout", b"x" * (2 * LINE_BYTES + 1))
    output.end()
    assert [len(line["message"]) for line in written()] == [LINE_BYTES, LINE_BYTES, 1]


def test_the_cap_is_of_the_item_and_the_cut_is_said(written):
    output = ItemOutput({})
    line = b"y" * 1023 + b"\n"
    for attempt in (1, 2):
        output.begin(attempt)
        for _ in range(ITEM_BYTES // 1024 // 2 + 10):
            output.feed("stdout", line)
        output.end()
    output.close()
    lines = written()
    (cut,) = (line for line in lines if line.get("cut"))
    assert len(lines) == ITEM_BYTES // 1024 + 1
    assert lines.index(cut) == ITEM_BYTES // 1024 // 2
    assert str(20 * 1024) in cut["message"]
    assert (lines[0]["attempt"], lines[-1]["attempt"]) == (1, 2)


def test_the_tail_is_of_the_last_attempt(written):
    output = ItemOutput({})
    output.begin(1)
    output.feed("stderr", b"first")
    output.begin(2)
    output.feed("stderr", b"z" * 10_000 + b"the end\n")
    assert output.tail().endswith("zthe end")
    assert len(output.tail()) < TAIL_BYTES


# ---- secrets --------------------------------------------------------------------------------------------------------


@pytest.fixture
def secret(monkeypatch):
    monkeypatch.setattr(worker_output, "_redacted", ())
    redact([SECRET])


def parts(size=6):
    return [SECRET[at : at + size] for at in range(len(SECRET) - size + 1)]


@pytest.mark.parametrize("at", range(len(SECRET.encode()) + 1))
def test_no_part_of_a_secret_is_shown_where_a_line_without_an_end_is_cut(written, secret, at):
    output = ItemOutput({})
    data = b"x" * (LINE_BYTES - at) + SECRET.encode() + b"y" * (LINE_BYTES + 100) + SECRET.encode()
    for start in range(0, len(data), 1000):
        output.feed("stdout", data[start : start + 1000])
    output.end()
    said = [line["message"] for line in written()]
    assert not [part for part in parts() if any(part in each for each in said)]
    assert "".join(said).replace("x", "").replace("y", "") == "******"


@pytest.mark.parametrize("more", range(len(SECRET.encode()) + 1))
def test_no_part_of_a_secret_begins_a_tail(secret, more):
    output = ItemOutput({})
    for _ in range(300):
        output.feed("stderr", SECRET.encode() + b"\n")
    output.feed("stderr", b"z" * more)
    assert not [part for part in parts() if part in output.tail()]


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_no_part_of_a_secret_begins_an_error_that_was_cut(secret, cut):
    shown = redacted_end(f"...{SECRET[cut:]} is wrong: {SECRET}")
    assert shown.startswith("...")
    assert shown.endswith(" is wrong: ***")
    assert not [part for part in parts() if part in shown]
