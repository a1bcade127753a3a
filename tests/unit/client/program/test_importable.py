"""How a function given as an object travels. Not proved here: that it runs (tests/worker/map/test_by_value.py)."""

import gc
import importlib.util
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy
import pytest

from tidemill.client.program.importable import shipped
from tidemill.code import CodeParts
from tidemill.errors import CallerError


class Kind:
    def method(self, uri): ...

    def __call__(self, input): ...  # noqa: A002


def wrapped():
    def inner(uri, input): ...  # noqa: A002

    return inner


def named(module, name):
    """A function that says that it is another."""

    def function(uri): ...

    function.__module__, function.__qualname__ = module, name
    return function


@pytest.mark.parametrize(
    ("function", "name", "takes_input"),
    [
        (lambda uri: uri, "lambda", False),
        (wrapped(), "inner", True),
        (partial(shipped, len), "shipped", False),
        (Kind().method, "method", False),
        (Kind(), "Kind", True),
        (named("__main__", "measure"), "measure", False),
        (named("tests.unit.client.program.test_importable", "wrapped"), "wrapped", False),
        (named("no.such", "f"), "f", False),
    ],
)
def test_a_function_without_a_name_to_import_it_by_travels_by_value(function: Any, name, takes_input):
    found = shipped(function)
    assert found.name == f"this_session:{name}"
    assert found.parts is not None
    assert list(found.parts.fingerprints) == [name]
    assert found.takes_input is takes_input


def test_what_is_no_function_is_refused():
    with pytest.raises(CallerError) as raised:
        shipped(7)  # type: ignore[arg-type]
    assert (raised.value.what, raised.value.allowed) == ("function", "a function, or 'module:function'")


def test_a_function_travels_with_its_package_and_what_is_to_be_installed(tmp_path, monkeypatch):
    package = tmp_path / "shop" / "parts"
    package.mkdir(parents=True)
    (tmp_path / "shop" / "__init__.py").touch()
    (package / "__init__.py").write_text("def of_package(uri): ...\n")
    (package / "tools.py").write_text("class Tool:\n    @staticmethod\n    def cut(uri): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    tools = importlib.import_module("shop.parts.tools")
    folders = {"shop": tmp_path / "shop"}
    assert shipped(tools.Tool.cut)[:3] == ("shop.parts.tools:Tool.cut", None, CodeParts({}, folders))
    (tmp_path / "requirements.txt").write_text("numpy")
    parts = CodeParts({"requirements.txt": tmp_path / "requirements.txt"}, folders)
    assert shipped(sys.modules["shop.parts"].of_package)[:3] == ("shop.parts:of_package", None, parts)


def test_a_module_under_another_name_is_refused(tmp_path, monkeypatch):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tools.py").write_text("def cut(uri): ...\n")
    spec = importlib.util.spec_from_file_location("kit", tmp_path / "shop" / "tools.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "kit", module)
    spec.loader.exec_module(module)
    with pytest.raises(CallerError, match=r"module kit, which was loaded from .*shop/tools.py: another name"):
        shipped(module.cut)


def test_nothing_travels_with_a_function_that_is_installed():
    assert shipped(numpy.load)[:3] == ("numpy:load", None, None)
    assert shipped(len)[:3] == ("builtins:len", None, None)
    assert shipped(gc.collect)[:3] == ("gc:collect", None, None)


def test_a_class_of_items_travels_as_a_function_does():
    @dataclass
    class Point:
        x: int

    found = shipped(len, Point)
    assert (found.name, found.item_type) == ("builtins:len", "this_session:Point")
    assert found.parts is not None
    assert shipped(len, ValueError).item_type == "builtins:ValueError"
    assert shipped("m:f", None, "json").item_type == "json"
