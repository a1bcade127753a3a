"""Edits a stack file in place: comments, order, quoting and layout of the rest stay as they are."""

import difflib
import io
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import click
import yaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from components.config import StackConfig, from_file
from components.config.load import read_text
from tidemill.folders import one_at_a_time

# Indents of mappings, sequences and a sequence's dash, tried until a file round-trips unchanged.
_LAYOUTS = ((2, 4, 2), (2, 2, 0), (4, 6, 4), (4, 4, 2), (4, 4, 0), (4, 2, 0))
Layout = tuple[int, int, int]
Steps = Sequence[str | int]
"""A path of keys and list positions."""

_COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def edited(
    path: Path, edit: Callable[[CommentedMap], None], cuts: Sequence[Steps] = (), places: Sequence[Steps] = ()
) -> tuple[str, str]:
    """The file's text before and after an edit of its `config:` mapping. Nothing is written.

    Args:
        edit: sets the values, after cuts and places.
        cuts: paths of keys to remove, with their comments.
        places: paths of new keys; each goes after its last neighbour and that neighbour's comments.

    Raises:
        ConfigError: the file cannot be read.
        click.UsageError: there is nothing at a path, or an edit would lose a comment.
    """
    from_file(path)
    before, _ = read(path)
    layout = next((each for each in _LAYOUTS if _text(_load(before, each), each) == before), _LAYOUTS[0])
    _check_comments(path, before, layout)
    text = before
    for steps in cuts:
        text = _cut(text, layout, ["config", *steps])
    for steps in places:
        text = _placed(text, layout, ["config", *steps])
    content = _load(text, layout)
    edit(content["config"])
    return before, _text(content, layout)


def _check_comments(path: Path, text: str, layout: Layout) -> None:
    """Refuse a file with comments that ruamel.yaml loses, such as those inside of brackets over several lines."""
    lost = Counter(_COMMENT.findall(text)) - Counter(_COMMENT.findall(_text(_load(text, layout), layout)))
    for comment in lost:
        raise click.UsageError(
            f"{path.name}: an edit would lose the comment {comment.strip()!r}, which is inside of brackets. Move it to "
            "a line above the key, and try again."
        )


def _cut(text: str, layout: Layout, steps: Steps) -> str:
    """A text without a key. ruamel.yaml alone would also remove the comment above the next key."""
    content = _load(text, layout)
    holder, last = _holder(content, steps), steps[-1]
    _entered(holder, last, steps[1:])
    if not isinstance(holder, CommentedMap) or holder.fa.flow_style():
        del holder[last]
        return _text(content, layout)
    lines = text.splitlines(keepends=True)
    start, end = _block(lines, holder, last)
    column = holder.lc.key(last)[1]
    while _is_comment(lines[start - 1]) and _indent(lines[start - 1]) == column:
        start -= 1
    return "".join([*lines[:start], *lines[end:]])


def _placed(text: str, layout: Layout, steps: Steps) -> str:
    """A text with a new key without a value. ruamel.yaml alone would put it before its neighbour's comments."""
    holder = _holder(_load(text, layout), steps)
    if not isinstance(holder, CommentedMap) or holder.fa.flow_style() or not holder:
        return text
    neighbour = list(holder)[-1]
    lines = text.splitlines(keepends=True)
    lines[-1] = lines[-1].rstrip("\n") + "\n"
    _, end = _block(lines, holder, neighbour)
    return "".join([*lines[:end], f"{' ' * holder.lc.key(neighbour)[1]}{steps[-1]}:\n", *lines[end:]])


def _holder(content: CommentedMap, steps: Steps) -> Any:
    """The parent of a path's last step."""
    holder: Any = content
    for at, step in enumerate(steps[:-1]):
        holder = _entered(holder, step, steps[1 : at + 1])
    return holder


def _block(lines: list[str], holder: CommentedMap, key: str | int) -> tuple[int, int]:
    """The first line of a key and the first line after it, by indent; comments above do not belong to it."""
    if key not in holder.lc.data:
        raise click.UsageError(f"{key}: an anchor brings this key in (<<: *), so it cannot be removed here.")
    start, column = holder.lc.key(key)
    end = start + 1
    while end < len(lines) and _is_within(lines[end], column):
        end += 1
    while _is_comment(lines[end - 1]) and _indent(lines[end - 1]) <= column:
        end -= 1
    return start, end


def _is_comment(line: str) -> bool:
    """A comment or an empty line."""
    return line.strip() == "" or line.lstrip().startswith("#")


def _is_within(line: str, column: int) -> bool:
    """True if a line is below a key of that column, or may be."""
    item = _indent(line) == column and line.lstrip().startswith("- ")
    return item or _is_comment(line) or _indent(line) > column


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" ")) if line.strip() else 0


def write(path: Path, before: str, after: str) -> None:
    """Check the new text, then replace the file atomically. Ends of lines and permissions stay the file's own.

    Of two commands that edit the same file at once, the second one is refused.

    Raises:
        ConfigError: the new text is not a valid stack file; the old one stays.
        click.UsageError: the file or its folder is read-only; the old one stays.
        click.ClickException: the file has changed meanwhile.
    """
    try:
        with one_at_a_time(path.parent):
            now, ends = read(path)
            if now != before:
                raise changed(path)
            # A file is replaced by its folder's permission alone, but a read-only one is not meant to change.
            if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
                raise PermissionError(0, "it is read-only")
            _replace(path, after, ends)
    except OSError as error:
        raise click.UsageError(f"{path.name} cannot be written: {error.strerror}. It is unchanged.") from None


def changed(path: Path) -> click.ClickException:
    """Another process has written the file since it was read."""
    return click.ClickException(f"{path.name} changed meanwhile. Try again.")


def _replace(path: Path, text: str, ends: str) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    new = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline=ends) as file:
            file.write(text)
            file.flush()
            # Without it a power cut may leave an empty file under the old name.
            os.fsync(file.fileno())
        from_file(new)
        shutil.copymode(path, new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def read(path: Path) -> tuple[str, str]:
    """A file's text with plain ends of lines, and those that it has."""
    # Nothing is written to a file that is not UTF-8: `from_file` refuses it.
    text = path.read_bytes().decode("utf-8", errors="replace")
    ends = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    return text.replace("\r\n", "\n"), ends


def check_others(path: Path, before: str, after: str, may_change: Collection[Steps]) -> None:
    """Refuse an edit that reaches further than it was meant to, through an anchor that several keys share.

    Args:
        may_change: paths below `config:`.

    Raises:
        click.UsageError: something else changes too; names it.
    """
    sides = [read_text(text, path.name)["config"] for text in (before, after)]
    for steps in may_change:
        for side in sides:
            _drop(side, steps)
    changed = _first_difference(*sides)
    if changed:
        raise click.UsageError(
            f"{path.name}: the edit would also change {'.'.join(changed)}, because an anchor (& and *) shares keys "
            "between them. Write the shared keys out where they differ, and try again."
        )


def _drop(content: Any, steps: Steps) -> None:
    """Remove a key from plain data; shared parts are copied, so that others keep theirs."""
    for step in steps[:-1]:
        if not isinstance(content, dict) or step not in content:
            return
        inner = content[step]
        content[step] = content = dict(inner) if isinstance(inner, dict) else inner
    if isinstance(content, dict):
        content.pop(steps[-1], None)


def _first_difference(before: Any, after: Any) -> list[str] | None:
    """The path of the first key that differs, as deep as both sides are mappings."""
    if before == after:
        return None
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    key = next(key for key in {**before, **after} if before.get(key) != after.get(key))
    return [str(key), *(_first_difference(before.get(key), after.get(key)) or [])]


def diff(path: Path, before: str, after: str) -> str:
    """An edit as a unified diff; empty where nothing changes."""
    name = f"stacks/{path.name}"
    return "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm=""))


def check(path: Path, after: str) -> StackConfig:
    """The config of a stack file's text.

    Raises:
        ConfigError: the text is not a valid stack file.
    """
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder, path.name)
        trial.write_text(after, encoding="utf-8")
        return from_file(trial)


def assignment(text: str) -> tuple[list[str | int], Any]:
    """``machines.families=[c7i]`` as the steps of its path and its YAML value.

    Raises:
        click.UsageError: the key or the value is missing, or the value is not valid YAML.
    """
    key, equals, value = text.partition("=")
    steps: list[str | int] = [int(number) if number else word for number, word in _STEP.findall(key)]
    if not equals or not steps or not value.strip():
        raise click.UsageError(f"{text!r} is not KEY=VALUE, such as item.memory_mib=4096; null removes a key.")
    try:
        return steps, yaml.safe_load(value)
    except (yaml.YAMLError, ValueError) as error:
        raise click.UsageError(f"{text!r}: the value is not valid YAML: {' '.join(str(error).split())}") from None


def assign(mapping: CommentedMap, steps: Steps, value: Any) -> None:
    """Set a value below a mapping, and create what is missing on the way.

    Raises:
        click.UsageError: a step leads into something that is neither a mapping nor a list, or beyond a list's end.
    """
    here: Any = mapping
    for at, step in enumerate(steps[:-1]):
        if isinstance(here, CommentedMap) and isinstance(step, str) and here.get(step) is None:
            here[step] = _inline([] if isinstance(steps[at + 1], int) else {})
        if isinstance(here, CommentedSeq) and step == len(here):
            here.append(_inline({}))
        here = _entered(here, step, steps[: at + 1])
    last = steps[-1]
    if isinstance(here, CommentedSeq) and last == len(here):
        here.append(_inline(value))
    else:
        if isinstance(here, CommentedSeq) or not isinstance(here, CommentedMap):
            _entered(here, last, steps)
        here[last] = _rearranged(here.get(last) if isinstance(here, CommentedMap) else None, value)


def _rearranged(present: Any, wanted: Any) -> Any:
    """A value; a list of names as the one that is there, so that names which stay keep their comments."""
    lists = isinstance(present, CommentedSeq) and isinstance(wanted, list)
    if not lists or not all(isinstance(each, str) for each in (*present, *wanted)):
        return _inline(wanted)
    comments = {name: present.ca.items.get(index) for index, name in enumerate(present)}
    present[:] = wanted
    present.ca.items.clear()
    present.ca.items.update({index: kept for index, name in enumerate(wanted) if (kept := comments.get(name))})
    return present


def _entered(here: Any, step: str | int, path: Steps) -> Any:
    inside = isinstance(here, CommentedMap) and step in here
    inside |= isinstance(here, CommentedSeq) and isinstance(step, int) and step < len(here)
    if not inside:
        raise click.UsageError(f"{'.'.join(map(str, path))}: there is nothing at {step!r}.")
    return here[step]


def _inline(value: Any) -> Any:
    """A value in the style of the committed stack files: everything below a queue's own keys is on one line."""
    if isinstance(value, dict):
        made: Any = CommentedMap((key, _inline(each)) for key, each in value.items())
        made.fa.set_flow_style()
    elif isinstance(value, list):
        made = CommentedSeq(_inline(each) for each in value)
        made.fa.set_flow_style()
    else:
        made = DoubleQuotedScalarString(value) if isinstance(value, str) and ":" in value else value
    return made


def _yaml(layout: Layout) -> YAML:
    reader = YAML()
    reader.preserve_quotes = True
    reader.width = 1_000_000
    # `[{market: spot}]` stays as it is.
    reader.brace_single_entry_mapping_in_flow_sequence = True
    mapping, sequence, offset = layout
    reader.indent(mapping=mapping, sequence=sequence, offset=offset)
    return reader


def _load(text: str, layout: Layout) -> CommentedMap:
    try:
        return _yaml(layout).load(text)
    except ValueError as error:
        # The engine takes a day such as 2026-02-30 as text.
        raise click.UsageError(f"the file cannot be edited: {error}. Put the value into quotes.") from None


def _text(content: CommentedMap, layout: Layout) -> str:
    stream = io.StringIO()
    _yaml(layout).dump(content, stream)
    return stream.getvalue()
