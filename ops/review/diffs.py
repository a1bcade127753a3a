"""The changed properties of a resource, old and new."""

import re
from collections.abc import Iterator
from typing import Any

from ops.review.document import Step
from ops.review.grants import grants
from ops.review.models import Property
from ops.review.values import clean, document, hides, is_unknown, short

_PART = re.compile(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|\.?([^.\[\]]+)')
_MISSING = object()
# Tags and labels that providers derive from others.
_DERIVED = ("tagsAll", "effectiveLabels", "pulumiLabels")
_MOST_ROWS = 40
_NOTHING: tuple[Any, ...] = (_MISSING, None, [], {})

Part = str | int


def parts(path: str) -> tuple[Part, ...]:
    """`tags["a.b"].c[0]` as ("tags", "a.b", "c", 0)."""
    words = _PART.findall(path)
    return tuple(int(index) if index else quoted.replace('\\"', '"') or plain for quoted, index, plain in words)


def joined(path: tuple[Part, ...]) -> str:
    """The reverse of `parts`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif re.search(r"[.\[\]\"]", part):
            text += f'["{part}"]'
        else:
            text += f".{part}" if text else part
    return text


def at(value: Any, path: tuple[Part, ...]) -> Any:
    """The value at a path; None if there is none."""
    inner = _at(value, path)
    return None if inner is _MISSING else inner


def changed(step: Step) -> dict[tuple[Part, ...], str]:
    """Changed paths, and the engine's kind of difference, such as `update-replace`."""
    if step.detailed_diff:
        return {parts(path): diff.kind for path, diff in step.detailed_diff.items()}
    keys = step.diff_reasons or [key for key in {**step.old, **step.new} if step.old.get(key) != step.new.get(key)]
    forcing = set(step.replace_reasons)
    return {(key,): "update-replace" if key in forcing else "update" for key in keys}


def roots(step: Step) -> set[str]:
    """Changed paths without list indexes and keys: `computeResources.subnets`."""
    return {".".join(part for part in path if isinstance(part, str)) for path in changed(step)}


def properties(step: Step) -> tuple[Property, ...]:
    """Rows of an update or a replacement, sorted by path; documents in strings are compared inside."""
    if step.op in ("create", "delete", "same") or not step.new_state:
        return ()
    rows: dict[tuple[Part, ...], Property] = {}
    for whole, kind in changed(step).items():
        if whole and whole[0] in _DERIVED:
            continue
        path = _list_of_scalars(step, whole)
        before, after = _before(step, path), _at(step.new, path)
        replaces = kind.endswith("-replace")
        if not replaces and _is_noise(step, path, before, after):
            continue
        for each, old, new in _inside(path, before, after):
            if each not in rows or replaces:
                hidden = hides(step.old, each) or hides(step.new, each)
                rows[each] = _row(each, old, new, replaces, hidden)
    listed = [rows[path] for path in sorted(rows, key=lambda path: [str(part).rjust(6) for part in path])]
    return tuple(listed[:_MOST_ROWS])


def _is_noise(step: Step, path: tuple[Part, ...], before: Any, after: Any) -> bool:
    """True if a provider lists a path although no input differs: values computed by the cloud, and null keys."""
    if "__defaults" in path or all(_bare(_at(side, path)) in _NOTHING for side in (step.old, step.new)):
        return True
    # A secret looks the same before and after.
    return isinstance(before, dict | list) and _bare(before) == _bare(after) and clean(before) == before


def _bare(value: Any) -> Any:
    """A value without null keys."""
    if isinstance(value, dict):
        return {key: _bare(each) for key, each in value.items() if each is not None}
    return [_bare(each) for each in value] if isinstance(value, list) else value


def _row(path: tuple[Part, ...], old: Any, new: Any, replaces: bool, hidden: bool) -> Property:
    kind = "add" if old is _MISSING else "delete" if new is _MISSING else "update"
    if isinstance(old, list) and isinstance(new, list) and _scalars(old) and _scalars(new):
        gone, come = [e for e in old if e not in new], [e for e in new if e not in old]
        if gone or come:
            sides = [("removed", gone), ("added", come)]
            shown = [f"{word} {short(clean(side, joined(path)), 400)}" if side else "" for word, side in sides]
            return Property(path=joined(path), kind=kind, replaces=replaces, old=shown[0], new=shown[1])
    key = "secret" if hidden else next((part for part in reversed(path) if isinstance(part, str)), "")
    shown = ["" if value is _MISSING else short(clean(value, key)) for value in (old, new)]
    return Property(path=joined(path), kind=kind, replaces=replaces, old=shown[0], new=shown[1])


def _list_of_scalars(step: Step, path: tuple[Part, ...]) -> tuple[Part, ...]:
    """The path of the whole list if an element of a list of plain values differs."""
    for end, part in enumerate(path):
        if isinstance(part, int):
            lists = [value for value in (_before(step, path[:end]), _at(step.new, path[:end])) if value is not _MISSING]
            if all(isinstance(value, list) and _scalars(value) for value in lists):
                return path[:end]
    return path


def _before(step: Step, path: tuple[Part, ...]) -> Any:
    given = _at(step.old, path)
    # A default that the cloud filled in is only in the outputs.
    return _at(step.old_state.outputs, path) if given is _MISSING and step.old_state else given


def _inside(path: tuple[Part, ...], old: Any, new: Any) -> Iterator[tuple[tuple[Part, ...], Any, Any]]:
    """The differences between two documents in strings; for other values, the values themselves."""
    before, after = document(old), document(new)
    if before is None or after is None:
        yield path, old, new
    elif (was := grants(before)) is not None and (will := grants(after)) is not None:
        # Compare what statements allow and deny: they have no names and no order.
        yield path, sorted(map(str, was)), sorted(map(str, will))
    else:
        yield from list(_differences(path, before, after)) or [(path, old, new)]


def _differences(path: tuple[Part, ...], old: Any, new: Any) -> Iterator[tuple[tuple[Part, ...], Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _differences((*path, key), old.get(key, _MISSING), new.get(key, _MISSING))
    elif isinstance(old, list) and isinstance(new, list) and (by := _identity(old, new)):
        # Match elements by name: removing one does not make all later ones differ.
        yield from _differences(path, {each[by]: each for each in old}, {each[by]: each for each in new})
    elif isinstance(old, list) and isinstance(new, list) and not (_scalars(old) and _scalars(new)):
        for index in range(max(len(old), len(new))):
            sides = [side[index] if index < len(side) else _MISSING for side in (old, new)]
            yield from _differences((*path, index), *sides)
    elif old != new:
        yield path, old, new


def _identity(old: list[Any], new: list[Any]) -> str | None:
    """The key that identifies the elements of two lists; None if there is none."""
    for key in ("name", "Sid", "id", "type"):
        sides = [[each.get(key) if isinstance(each, dict) else None for each in side] for side in (old, new)]
        if all(isinstance(name, str) for side in sides for name in side) and all(len({*s}) == len(s) for s in sides):
            return key if old or new else None
    return None


def _scalars(values: list[Any]) -> bool:
    return not any(isinstance(value, dict | list) for value in values)


def _at(value: Any, path: tuple[Part, ...]) -> Any:
    for part in path:
        if is_unknown(value):
            return value
        if isinstance(value, dict):
            value = value.get(part, _MISSING)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return _MISSING
    return value
