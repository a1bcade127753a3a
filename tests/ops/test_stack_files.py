"""Edits of stack files that somebody else holds, that may not be written, or that are laid out in another way."""

import multiprocessing
import os

import click
import pytest
import yaml

from components.config import ConfigError
from ops import project, stack_files

FILE = """\
# The vision team.
config:
  aws:region: us-west-2
  tidemill:team: vision
  tidemill:environment: dev
  tidemill:queues:
    cpu: &base
      images: {default: "registry://preprocess:1.4.0"}
      machines: {families: [c7i, c6i]}   # what the night needs
      capacity: [{market: spot}, {market: on_demand, max_cpus: 64}]
    big: {<<: *base, item: {cpus: 2}}
"""
FAMILIES = ["tidemill:queues", "cpu", "machines", "families"]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "Pulumi.vision-dev.yaml"
    file.write_text(FILE)
    return file


def edited(path, families=("c7i",)):
    return stack_files.edited(path, lambda config: stack_files.assign(config, FAMILIES, [*families]))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_ends_of_lines_stay_the_files_own(path, ends, mark):
    path.write_bytes((mark + FILE.replace("\n", ends)).encode())
    before, after = edited(path)
    stack_files.write(path, before, after)
    wanted = FILE.replace("[c7i, c6i]}   #", "[c7i]}   #").replace("\n", ends)
    assert path.read_bytes().decode().removeprefix("\ufeff").replace(" ", "") == wanted.replace(" ", "")


def test_a_comment_that_an_edit_would_lose_stops_it(path):
    inside = "machines: {\n        families: [c7i,  # proven\n                   c6i]}"
    path.write_text(FILE.replace("machines: {families: [c7i, c6i]}", inside))
    with pytest.raises(click.UsageError, match="would lose the comment '# proven'"):
        edited(path)


def test_permissions_stay_the_files_own(path):
    path.chmod(0o640)
    stack_files.write(path, *edited(path))
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_read_only_file_stays(path):
    path.chmod(0o444)
    with pytest.raises(click.UsageError, match="cannot be written: it is read-only"):
        stack_files.write(path, *edited(path))
    assert path.read_text() == FILE


def test_a_full_disk_leaves_the_file_and_nothing_else(path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(click.UsageError, match="No space left on device"):
        stack_files.write(path, *edited(path))
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert path.read_text() == FILE


def test_a_result_that_is_wrong_leaves_the_file_and_nothing_else(path):
    before, after = edited(path, ["z9"])
    with pytest.raises(ConfigError):
        stack_files.write(path, before, after)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_of_writers_at_once_each_edit_is_whole_or_refused(path):
    """Every writer has read the same file; all but one are told, whatever the order."""
    fork = multiprocessing.get_context("fork")
    start, told = fork.Barrier(4), fork.Queue()
    families = ["m7i", "m6i", "r7i", "r6i"]
    writers = [fork.Process(target=_write_what_was_read, args=(path, edited(path, [f]), f, start, told))
               for f in families]  # fmt: skip
    for each in writers:
        each.start()
    answers = [told.get(timeout=60) for _ in writers]
    for each in writers:
        each.join(60)
    won = [answer for answer in answers if answer in families]
    assert len(won) == 1
    assert sum("changed meanwhile" in answer for answer in answers) == len(families) - 1
    assert yaml.safe_load(path.read_text())["config"]["tidemill:queues"]["cpu"]["machines"]["families"] == won


def _write_what_was_read(path, texts, family, start, told):
    start.wait(60)
    try:
        stack_files.write(path, *texts)
        told.put(family)
    except click.ClickException as error:
        told.put(error.message)


def test_an_edit_that_an_anchor_carries_into_another_queue_is_refused(path):
    before, after = edited(path)
    with pytest.raises(click.UsageError, match=r"would also change tidemill:queues\.big\.machines\.families"):
        stack_files.check_others(path, before, after, [FAMILIES[:2]])
    stack_files.check_others(path, before, after, [FAMILIES[:2], ["tidemill:queues", "big"]])


def test_a_day_that_does_not_exist_is_told(tmp_path):
    path = tmp_path / "Pulumi.vision-dev.yaml"
    text = (project.STACKS / path.name).read_text().replace("config:", "config:\n  other:day: 2026-02-30", 1)
    path.write_text(text)
    with pytest.raises(click.UsageError, match="the file cannot be edited: day is out of range"):
        stack_files.edited(path, lambda config: None)
    assert path.read_text() == text
