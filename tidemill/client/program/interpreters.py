"""Which words of a command are program text for an interpreter: `sh -c TEXT`, `python3 -c TEXT`, `awk TEXT`.

A placeholder in such a word would let an item's name run as code, so a submit refuses it. The table decides by
position, not by what the text says; it is not a sandbox against the author of the command, who may run anything anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class _Interpreter:
    """How an interpreter is given program text.

    Attributes:
        names: Its names, as a pattern.
        code: Options that the text follows, or is part of. None: the first operand is the text.
        value: Other options that take the next word.
        many: Whether several texts may be given; otherwise the first one ends the options.
    """

    names: str
    code: str | None
    value: str = r"(?!)"
    many: bool = False


_INTERPRETERS = (
    _Interpreter(r"(ba|da|z|[akp]|mk|pdk)?sh|fish|su|runuser", r"-\w*c|--command", r"[-+]\w*[oO]|--\w+file"),
    _Interpreter(r"(python|pypy)[\d.]*", r"-\w*c", r"-\w*[WX]"),
    _Interpreter(r"(perl|ruby)[\d.]*", r"-\w*[eE]", r"-[ICr]", many=True),
    _Interpreter(r"node(js)?|php[\d.]*|lua[\d.]*|Rscript|R|julia", r"-[eEpr]|--(eval|print|run)", r"-d", many=True),
    _Interpreter(r"[gmn]?awk", None, r"-[vF]|--(assign|field-separator)"),
)
_REMOTE = re.compile(r"ssh|eval")
"""All their words together are one text for a shell."""


def code_words(command: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Positions of the words that an interpreter reads as program text, each with the interpreter's name.

    A wrapper before the interpreter (`env`, `timeout 60`, `xargs`, `busybox`) makes no difference.
    """
    for at, word in enumerate(command):
        name = PurePosixPath(word).name
        if _REMOTE.fullmatch(name):
            yield from ((position, name) for position in range(at + 1, len(command)))
        for interpreter in _INTERPRETERS:
            if re.fullmatch(interpreter.names, name):
                yield from ((position, name) for position in _texts(command, at + 1, interpreter))


def _texts(command: Sequence[str], start: int, interpreter: _Interpreter) -> Iterator[int]:
    expected, skipped = interpreter.code is None, False
    for position in range(start, len(command)):
        word = command[position]
        if skipped:
            skipped = False
        elif word[:1] in ("-", "+") and word not in ("-", "--"):
            if match := interpreter.code and re.match(interpreter.code, word):
                # `--eval=TEXT`, or a text right behind the letter.
                attached = match.end() < len(word)
                if attached:
                    yield position
                expected = not attached
            elif interpreter.code is None and re.match(r"-f|--file", word):
                return
            skipped = bool(re.fullmatch(interpreter.value, word))
        elif expected:
            yield position
            if not interpreter.many:
                return
            expected = False
        elif word != "--":
            return


def script_of(command: Sequence[str]) -> str | None:
    """The file that the first interpreter of a command runs: `features.py` of `python3 -u features.py {input}`."""
    for at, word in enumerate(command):
        name = PurePosixPath(word).name
        kind = next((one for one in _INTERPRETERS[:-1] if re.fullmatch(one.names, name)), None)
        if kind is None:
            continue
        for option in command[at + 1 :]:
            if not option.startswith(("-", "+")):
                return option
            if option == "-m" or (kind.code and re.match(kind.code, option)) or re.fullmatch(kind.value, option):
                return None
        return None
    return None
