"""The size of files and classes, and one meaning per class name. What this cannot see: whether a name is a good one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ["bootstrap", "components", "ops", "plugin", "policy", "shared", "tidemill", "worker_image"]
FILE_LINES = 350
CLASS_METHODS = 20


def sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def test_files_have_one_subject() -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in sources(*PRODUCT)}
    assert {str(path.relative_to(ROOT)) for path, size in sizes.items() if size > FILE_LINES} == set()


def test_classes_have_one_subject() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    every = [node for path in sources(*PRODUCT) for node in classes(path)]
    sizes = [(node.name, sum(isinstance(each, functions) for each in node.body)) for node in every]
    assert {name for name, methods in sizes if methods > CLASS_METHODS} == set()


def test_a_class_name_has_one_meaning() -> None:
    names = Counter(
        f"{package} {node.name}" for package in PRODUCT for path in sources(package) for node in classes(path)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_module_takes_the_name_of_a_packages_function() -> None:
    """Its import would put the module in the function's place."""
    packages = [(path.parent, ast.parse(path.read_text())) for path in sources(*PRODUCT) if path.name == "__init__.py"]
    defined = {
        folder / node.name for folder, tree in packages for node in tree.body if isinstance(node, ast.FunctionDef)
    }
    assert [str(name) for name in defined if name.is_dir() or name.with_suffix(".py").exists()] == []
