"""Checks a program at submit: refuses what surely fails, and remarks on what may fail."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os.path import isfile  # not Path.is_file, which raises for a word that is too long for a name
from pathlib import Path

from tidemill.client.program.function import function_remarks
from tidemill.client.program.interpreters import code_words, script_of
from tidemill.code import PACKAGE
from tidemill.code import PLACEHOLDER as CODE
from tidemill.errors import CallerError, closest, nearest
from tidemill.job import JobSpec
from tidemill.placeholders import PLACEHOLDERS, unknown_placeholders

_wrong = partial(CallerError, what="command")

_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "eval")
_SHELL_WORDS = re.compile(r"^(\||\|\||&|&&|;|<|>|>>|2>|2>&1)$|\$\(|`|^\*|/\*")
_HEAD_BYTES = 512


@dataclass(frozen=True)
class Program:
    """A job's program.

    Attributes:
        spec: The job; its command names shipped files as `{code}/...`.
        code: The folder that travels with it, or None.
        local: It runs on this machine.
    """

    spec: JobSpec
    code: Path | None
    local: bool

    @property
    def command(self) -> list[str]:
        return self.spec.command or []

    @property
    def placeholders(self) -> tuple[str, ...]:
        ours = [name for name in PLACEHOLDERS if name != "state" or self.spec.state is not None]
        return (*ours, *self.spec.placeholders, *self.spec.inputs)

    def variable(self, placeholder: str) -> str:
        """The variable that has the value of a placeholder, too."""
        if placeholder in self.spec.inputs:
            return f"TIDEMILL_INPUT_{placeholder.upper()}"
        return f"TIDEMILL_{placeholder.upper()}" if placeholder in PLACEHOLDERS else "TIDEMILL_META"

    def placeholder_in(self, word: str) -> str | None:
        """The first placeholder of a word."""
        match = re.search(r"\{(" + "|".join(map(re.escape, self.placeholders)) + r")\}", word)
        return match and match[1]

    def file(self, word: str) -> Path | None:
        """The file that a word names on the machines and that is here too."""
        if self.code is not None and word.startswith(f"{CODE}/"):
            return self.code / word.removeprefix(f"{CODE}/")
        return Path(word) if self.local and word.startswith("/") else None


def check_program(program: Program) -> Iterator[str]:
    """Yields what may not be what the author means.

    Raises:
        CallerError: What cannot work, or would let an item's name run as code.
    """
    if program.spec.function:
        yield from function_remarks(program.spec.function, program.code, program.local)
        return
    _check_one_word(program)
    _check_code_words(program)
    _check_input(program)
    yield from _unknown(program)
    yield from _script_remarks(program)
    yield from _remarks(program)


def name_of(program: Sequence[str], function: str | None) -> str:
    """A job's name after what it runs: `features` of `python3 features.py {input}`."""
    if function:
        text = function.removeprefix(f"{PACKAGE}:").replace(":", "-")
    else:
        words = [Path(word).name for word in program if not word.startswith("-") and "{" not in word]
        scripts = [word for word in words if re.fullmatch(r".*\.\w{1,4}", word)]
        text = Path((scripts or words or ["job"])[0]).stem
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-").lstrip("0123456789-")[:40]
    return name.rstrip("-") or "job"


# ---- words ---------------------------------------------------------------------------------------------------------


def _check_one_word(program: Program) -> None:
    """A whole command line in quotes is one word, and no program has that name."""
    command = program.command
    first = command[0].split()
    if len(first) > 1 and ("/" not in first[0] or program.placeholder_in(command[0])) and not isfile(command[0]):
        raise _wrong(
            f"command[0] is {command[0]!r}, a whole command line in one word.",
            "Make each argument a word of its own, or let a shell read it: sh -c 'COMMAND LINE'.",
        )


def _check_code_words(program: Program) -> None:
    """Names of items never become code."""
    for position, interpreter in code_words(program.command):
        if name := program.placeholder_in(program.command[position]):
            variable = program.variable(name)
            problem = (
                f"command[{position}] is code for {interpreter}: {{{name}}} in it would let an item's name run as code."
            )
            if name in program.spec.inputs:
                raise _wrong(
                    f"command[{position}] is code for {interpreter}; {{{name}}} in it would let a path run as code.",
                    f"Use {variable}, which is a variable of the program.",
                )
            if interpreter in _SHELLS:
                raise _wrong(
                    f'{problem} Quote the variable instead: sh -c \'sha256sum "$TIDEMILL_INPUT" > '
                    f'"$TIDEMILL_OUTPUT/sum.txt"\', or pass an argument: sh -c \'... "$1" ...\' sh {{{name}}}'
                )
            raise _wrong(f"{problem} Pass {{{name}}} as an argument, or read {variable} from the environment.")


def _check_input(program: Program) -> None:
    """An item of a sweep is a combination of values: there is nothing to fetch."""
    if program.spec.stage_input is False and any("{input}" in word for word in program.command):
        raise _wrong(
            "The command holds {input}, and the items of a sweep are combinations, not files.",
            "Name what varies in braces, such as {lr}.",
        )


def _unknown(program: Program) -> Iterator[str]:
    """Braced words that are not placeholders. Braces that the program itself needs stay."""
    code = {position for position, _ in code_words(program.command)}
    plain = [word for position, word in enumerate(program.command) if position not in code]
    if program.spec.state is None and "state" not in program.placeholders and any("{state}" in word for word in plain):
        raise _wrong("The command holds {state}, and its items keep no state.", "Let them keep it: `state=True`.")
    for word in unknown_placeholders(plain):
        if word == CODE.strip("{}"):
            if program.code is None:
                raise _wrong(f"The command holds {CODE}, and no code is sent.", "Give the folder: `code=DIR`.")
        elif word in program.placeholders:
            continue
        elif near := nearest(word, program.placeholders):
            named = " ".join(f"{{{name}}}" for name in program.placeholders)
            raise _wrong(
                f"{{{word}}} in the command is not a placeholder.{near} The placeholders are: {named}.",
                "Put braces that the program itself needs into a script or a variable.",
            )
        else:
            yield f"{{{word}}} in the command is not a placeholder; the program gets it as it is."


def _remarks(program: Program) -> Iterator[str]:
    command, text = program.command, " ".join(program.command)

    def named(*names: str) -> bool:
        return any(f"{{{name}}}" in text or f"TIDEMILL_{name.upper()}" in text for name in names)

    names_item = named(*PLACEHOLDERS, *program.spec.placeholders) or "TIDEMILL_META" in text
    # Items of a sweep differ in their hyperparameters, which the program also finds in its environment.
    if not names_item and program.spec.stage_input is not False:
        yield (
            "The command does not name its item ({input}, {uri} or {index}): every run gets the same arguments, and "
            "only TIDEMILL_URI in its environment differs."
        )
    elif not named("output", "output_uri") and not program.spec.layout:
        yield "The command has no {output}: of the files it writes, only those in $TIDEMILL_OUTPUT are kept."
    if program.spec.state is not None and not named("state") and "SSM_INSTANCE_STATE" not in text:
        yield (
            "The command does not name {state}: the program must find the folder for its checkpoints in "
            "$TIDEMILL_STATE, or it begins anew when its machine goes."
        )
    if Path(command[0]).name not in _SHELLS:
        for word in (word for word in command if _SHELL_WORDS.search(word)):
            yield f"{word!r} reaches the program as it is. Let a shell read the command: sh -c 'COMMAND LINE'."


# ---- files ---------------------------------------------------------------------------------------------------------


def _script_remarks(program: Program) -> Iterator[str]:
    """Check that the files which the command runs get to the machines and can be executed there."""
    command = program.command
    if file := program.file(command[0]):
        _check_executable(file, command[0])
    elif program.local:
        _check_there(program)
    script = script_of(command)
    if (
        program.local
        and script is not None
        and not script.startswith("/")
        and "{" not in script
        and program.code is None
    ):
        _refuse_missing(script)
    if script is not None and (file := program.file(script)) and isfile(file) and b"\r\n" in _head(file):
        yield f"{file.name} has Windows line ends (CRLF), which shells misread: sed -i 's/\\r$//' {file.name}"
    if program.local:
        return
    for position, word in enumerate(command):
        if not is_here(word):
            continue
        if word == script or (position == 0 and "/" in word):
            fix = "Send its folder: `code='.'`." if program.code is None else f"Move it into {program.code}."
            raise _wrong(
                f"{word} is a file of this machine, and the queue's machines do not have it: an item runs in an empty "
                f"folder of its own. {fix} A file of the image needs its full path."
            )
        yield f"{word} is also a file of this machine; the queue's machines do not get it (`code=DIR` sends a folder)."


def _check_there(program: Program) -> None:
    """A program of this machine must be on its PATH, or its items would all fail to start."""
    first = program.command[0]
    path = program.spec.env.get("PATH")
    if "/" not in first and "{" not in first and shutil.which(first, path=path) is None:
        raise _wrong(
            f"command[0] is {first!r}, and no program of this machine has that name.",
            "Correct it, or give its path: ./NAME for a file of this folder.",
        )


def _refuse_missing(script: str) -> None:
    """Refuse a script with a relative path in a local job: an existing file would have a full path by now."""
    # Names that share only an ending are not alike.
    names = {each.stem: each.name for each in Path().iterdir() if each.suffix == Path(script).suffix}
    stem = closest(Path(script).stem, names)
    near = f" Did you mean {names[stem]!r}?" if stem else ""
    raise _wrong(f"{script} is not in this folder.{near}", "Correct it, or give its full path.")


def is_here(word: str) -> bool:
    return bool(word) and not word.startswith(("-", "/", "{")) and isfile(word)


def _check_executable(file: Path, word: str) -> None:
    if not isfile(file):
        return
    head, name = _head(file), file.name
    if not file.stat().st_mode & 0o100:
        interpreter = "sh" if name.endswith(".sh") else "python3"
        fix = f"Run `chmod +x {name}`, or name its interpreter: {interpreter} {name}"
        raise _wrong(f"{word} cannot be executed.", fix)
    line = head.partition(b"\n")[0]
    if line.startswith(b"#!") and line.endswith(b"\r"):
        fix = f"Convert it: sed -i 's/\\r$//' {name}"
        raise _wrong(f"{word} has Windows line ends (CRLF), so its interpreter is not found.", fix)
    if not line.startswith((b"#!", b"\x7fELF")) and b"\0" not in head:
        raise _wrong(f"{word} has no `#!` line, so it cannot be executed.", "Add one, such as #!/usr/bin/env python3")


def _head(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(_HEAD_BYTES)
