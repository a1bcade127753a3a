"""Files of this machine that a command uses where they are: those that it names, and the modules of the caller's own
folders that they import."""

from __future__ import annotations

import ast
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tidemill.client.program.function import search_path
from tidemill.client.program.interpreters import code_words
from tidemill.client.program.own_modules import OwnModules, parsed
from tidemill.code.entries import files_below

_SYSTEM = ("/bin/", "/sbin/", "/usr/", "/lib", "/opt/", "/nix/", "/etc/", "/proc/", "/dev/")
"""Programs there change with packages of the system, not with the work of a person."""


def used_files(command: Sequence[str], env: Mapping[str, str]) -> list[Path]:
    """The files that a command names, and those of the modules that Python code among them imports.

    Args:
        command: Its words. A file is named by its full path; in code for a shell, also by its path from this folder.
        env: Variables of the program, besides those of this process.
    """
    env = {**os.environ, **env}
    files = dict.fromkeys(_named(command))
    for file in list(files):
        if (tree := parsed(file)) is not None:
            files |= dict.fromkeys(_imported(tree, search_path(file.parent, env)))
    for tree in _python_words(command):
        files |= dict.fromkeys(_imported(tree, search_path(Path("/"), env)[1:]))
    return list(files)


def _named(command: Sequence[str]) -> Iterator[Path]:
    shell = {position for position, _ in code_words(command)}
    for position, word in enumerate(command):
        for part in _parts(word) if position in shell else (word, word.partition("=")[2]):
            path = Path(part)
            if part and (path.is_absolute() or position in shell) and _is_own_file(path):
                yield path.absolute()


def _parts(text: str) -> list[str]:
    """The plain words of code for a shell, without files that it writes: those differ after each item."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return text.split()
    written = {target for word, target in pairwise(words) if word.endswith(">")}
    return [word for word in words if word not in written]


def _is_own_file(path: Path) -> bool:
    # Not Path.is_file, which raises for a word that is too long for a name.
    return os.path.isfile(path) and not os.path.realpath(path).startswith(_SYSTEM)


def _python_words(command: Sequence[str]) -> Iterator[ast.Module]:
    """Python code that a command holds: `-c TEXT`, and `-m MODULE` as the import that it is."""
    texts = [command[position] for position, name in code_words(command) if name.startswith(("python", "pypy"))]
    texts += [f"import {module}" for option, module in pairwise(command) if option == "-m"]
    for text in texts:
        try:
            yield ast.parse(text)
        except (SyntaxError, ValueError):
            continue


def _imported(tree: ast.Module, path: Sequence[str]) -> Iterator[Path]:
    modules = OwnModules(path, in_place=True)
    modules.follow(tree)
    yield from modules.files.values()
    for folder in modules.folders.values():
        yield from files_below(folder)
