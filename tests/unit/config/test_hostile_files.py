"""Stack files that no hand would write: each ends with one sentence, in time. Not proven: file systems that hang."""

import os
from pathlib import Path

import pytest

from components.config import ConfigError, from_file
from components.config.load import read_file

GOOD = """\
config:
  aws:region: us-west-2
  tidemill:team: vision
  tidemill:environment: dev
  tidemill:queues:
    cpu: {images: {default: "docker.io/library/python@sha256:%s"}}
""" % ("a" * 64)  # fmt: skip
LAUGHS = "  other:a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"  other:{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "Pulumi.vision-dev.yaml"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("  other:x: &t {a: *t}\n", "its aliases lie within themselves, or repeat too much"),
        ("  other:x: &t [[*t]]\n", "its aliases lie within themselves, or repeat too much"),
        (LAUGHS, "its aliases lie within themselves, or repeat too much"),
        (f"  other:x: {'9' * 5000}\n", "Exceeds the limit"),
        (f"  other:x: {'[' * 3000}{']' * 3000}\n", "it is nested too deeply"),
        ("# " + "x" * (1 << 20), "it has 1,04"),
        ('  other:x: "\0"\n', "unacceptable character"),
    ],
    ids=["within itself", "deep within itself", "a billion", "a number", "brackets", "a megabyte", "a zero byte"],
)
def test_it_is_told_in_one_line(path, more, says):
    path.write_text(GOOD + more)
    with pytest.raises(ConfigError) as caught:
        from_file(path)
    told = str(caught.value)
    assert told.startswith("Pulumi.vision-dev.yaml: ")
    assert says in told
    assert len(told) < 300
    assert "\n" not in told


def test_what_is_no_file_is_not_opened(path):
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="it is no file"):
        read_file(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="it is no file"):
        read_file(path)


def test_a_link_is_refused(path):
    """CI would not see a change of the file that it leads to."""
    (path.parent / "shared.yaml").write_text(GOOD)
    path.symlink_to("shared.yaml")
    with pytest.raises(ConfigError, match="it is a link"):
        from_file(path)


def test_odd_bytes_that_the_engine_takes_are_taken(path):
    plain = GOOD + "  other:day: 2026-02-30\n  other:list: &l [a]\n  other:again: [*l, *l]\n"
    for text in (plain, f"\ufeff{plain}", plain.replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        assert from_file(path).team == "vision"
        assert read_file(path)["config"]["other:day"] == "2026-02-30"
