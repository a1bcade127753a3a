"""Writes advice into a stack file: the fewest changes of its text, comments and order kept."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import click
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from components.config import Queue, StackConfig
from ops import stack_files
from ops.advise.rules import KeyChange
from ops.advise.standing import QUEUES, Subject


def edited(about: Subject, changes: Sequence[KeyChange]) -> tuple[str, str]:
    """The stack file's text before and after the changes. Nothing is written.

    Raises:
        ConfigError: the result would not be a valid stack file.
        click.ClickException: the file has changed since it was read.
        click.UsageError: an anchor shares the queue's keys, so that the edit would reach further or not far enough.
    """
    if not changes:
        return about.text, about.text
    here = [QUEUES, about.name]
    cuts = [[*here, *_cut(about, change.key)] for change in changes if change.after is None]

    def edit(config: CommentedMap) -> None:
        for change in changes:
            if change.after is not None:
                _set(config[QUEUES][about.name], change)

    # The changes are right for the file that they were made for, and may not even be possible in another one.
    _check_unchanged(about, stack_files.read(about.path)[0])
    before, after = stack_files.edited(about.path, edit, cuts)
    _check_unchanged(about, before)
    found = stack_files.check(about.path, after)
    stack_files.check_others(about.path, before, after, [here])
    _check_all(about, changes, found)
    return before, after


def _check_unchanged(about: Subject, text: str) -> None:
    if text != about.text:
        raise stack_files.changed(about.path)


def _cut(about: Subject, key: str) -> list[str]:
    """The steps of a key to remove; its parent's where it is the only one in there."""
    outer, inner = key.split(".")
    return [outer] if [*about.raw[QUEUES][about.name][outer]] == [inner] else [outer, inner]


def _set(queue: CommentedMap, change: KeyChange) -> None:
    steps = change.key.split(".")
    holder: Any = queue
    for step in steps:
        holder = holder.get(step) if isinstance(holder, CommentedMap) else None
    if isinstance(holder, CommentedSeq) and all(isinstance(each, str) for each in change.after):
        _rearrange(holder, change.after)
    elif isinstance(holder, CommentedSeq):
        _update(queue, steps, holder, change.after)
    else:
        stack_files.assign(queue, steps, change.after)


def _rearrange(found: CommentedSeq, wanted: Sequence[str]) -> None:
    """A list of names: what goes is removed, what is new is appended, and only another order moves the rest."""
    for index in reversed(range(len(found))):
        if found[index] not in wanted:
            del found[index]
    for name in wanted:
        if name not in found:
            found.append(name)
    if list(found) != list(wanted):
        comments = {name: found.ca.items.get(index) for index, name in enumerate(found)}
        found[:] = wanted
        found.ca.items.clear()
        found.ca.items.update({index: comments[name] for index, name in enumerate(wanted) if comments[name]})


def _update(queue: CommentedMap, steps: Sequence[str], found: CommentedSeq, wanted: Sequence[dict[str, Any]]) -> None:
    """A list of mappings that gets new values and new entries at its end."""
    for index, mapping in enumerate(wanted):
        if index == len(found):
            stack_files.assign(queue, [*steps, index], mapping)
            continue
        for key, value in mapping.items():
            if found[index].get(key) != value:
                stack_files.assign(queue, [*steps, index, key], value)


def _check_all(about: Subject, changes: Sequence[KeyChange], found: StackConfig) -> None:
    """Refuse a file that does not say what was advised, as after an edit of keys that a merge brings in."""
    wanted = copy.deepcopy(about.queue.model_dump(mode="json"))
    for change in changes:
        *outer, last = change.key.split(".")
        holder = wanted[outer[0]] if outer else wanted
        holder[last] = change.after if change.after is not None else []
    if found.queues[about.name].model_dump() != Queue.model_validate(wanted).model_dump():
        raise click.UsageError(
            f"{about.path.name}: the queue {about.name} shares keys with others by an anchor (& and *), so its own "
            "cannot be edited alone. Write them out, and try again."
        )
