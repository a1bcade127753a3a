"""Fingerprints of functions that travel by value: two that may do different things are two jobs.

Not proved here: that a comment or another session changes nothing (tests/worker/map/test_by_value.py), and annotations
of Python 3.14, which are functions.
"""

import re
from typing import Any

import pytest

from tidemill.client.program.by_value import by_value
from tidemill.client.program.importable import shipped
from tidemill.client.program.own_modules import OwnModules
from tidemill.code import pack
from tidemill.errors import CallerError

ROW = "class Row:\n    def value(self): return {0}\n"
DIFFERENT = {
    "a module that a program has made": "import types\nm = types.ModuleType('settings')\nm.LIMIT = {0}\n"
    "def f(x): return m.LIMIT",
    "the docstring of a class, which may be a prompt": "class Ask:\n    'Answer {0}.'\ndef f(x): return Ask",
    "the docstring of a function, set later": "def g(): ...\ng.__doc__ = 'Answer {0}.'\ndef f(x): return g.__doc__",
    "metadata of a field": "from dataclasses import dataclass, field\n@dataclass\nclass A:\n"
    "    a: int = field(default=1, metadata={{'k': {0}}})\ndef f(x): return A",
    "a class within a list's type": ROW + "Rows = list[Row]\ndef f(x): return Rows",
    "a class that may be None": "import typing\n" + ROW + "Rows = typing.Optional[Row]\ndef f(x): return Rows",
    "a class or None": ROW + "Rows = Row | None\ndef f(x): return Rows",
    "what a type variable is bound to": "import typing\n"
    + ROW
    + "T = typing.TypeVar('T', bound=Row)\ndef f(x): return T",
    "a check in a type": "import typing\ndef g(x): return x + {0}\nT = typing.Annotated[int, g]\ndef f(x): return T",
    "an annotation, by which libraries convert": "def f(x: 'Table{0}'): return x",
    "a captured variable with the name of a global one": "k = 5\ndef made(k):\n    def f(x):\n        def g():\n"
    "            global k\n            return k\n        return g() + k\n    return f\nf = made({0})",
    "what a list leads back to": "a = []\nb = [a]\na.append(b)\nr = [a]\nr.append([b, [r]][{0} - 1])\n"
    "def f(x): return r",
}


def made(definitions) -> Any:
    space = {"__name__": "__main__"}
    exec(definitions, space)
    return space["f"]


def fingerprint(function):
    return by_value("f", {"f": function}, OwnModules()).fingerprints


@pytest.mark.parametrize("name", DIFFERENT)
def test_functions_that_differ_are_told_apart(name):
    first, again, other = (fingerprint(made(DIFFERENT[name].format(value))) for value in (1, 1, 2))
    assert first == again
    assert first != other


def test_an_address_in_a_docstring_makes_no_other_function():
    """A dataclass writes its defaults into its own."""
    definitions = (
        "from dataclasses import dataclass\ndef g(): ...\n@dataclass\nclass A:\n    a: object = g\ndef f(x): return A"
    )
    first, again = made(definitions), made(definitions)
    docs = [each.__globals__["A"].__doc__ for each in (first, again)]
    assert re.search(" at 0x", docs[0])
    assert docs[0] != docs[1]
    assert fingerprint(first) == fingerprint(again)


def test_a_folder_with_the_name_of_the_session_is_refused(tmp_path):
    """Its function would run in place of the caller's."""
    (tmp_path / "this_session").mkdir()
    (tmp_path / "this_session" / "__init__.py").write_text("def f(uri): ...\n")
    parts = shipped(lambda uri: uri).parts
    with pytest.raises(CallerError, match="code has 'this_session' at its top"):
        pack(tmp_path, parts=parts)


TOKEN = "hf_" + "a1B2c3D4e5" * 4


@pytest.mark.parametrize(
    "definitions",
    [
        f"token = {TOKEN!r}\ndef f(x): return token",
        f"def made(token):\n    return lambda x: token\nf = made({TOKEN!r})",
        f"token = {{'headers': ['Bearer {TOKEN}'], 'table': bytes(1 << 17)}}\ndef f(x): return token",
        f"def f(x, token={TOKEN!r}): return token",
    ],
    ids=["global", "captured", "in a large value", "default"],
)
def test_what_looks_like_a_secret_is_refused_without_its_value(definitions):
    with pytest.raises(CallerError, match="looks like a secret") as refused:
        fingerprint(made(definitions))
    assert "tidemill secret set" in str(refused.value)
    assert TOKEN not in str(refused.value)
    if "token =" in definitions:
        assert "`token`, which it uses, looks like" in str(refused.value)
