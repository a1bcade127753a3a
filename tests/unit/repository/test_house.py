"""The size of files, folders, classes and calls, and one meaning per class name.

The exceptions are named, each with its size: what shrinks gets the smaller size here, and what keeps the limit leaves
the list. What this cannot see: whether a name is a good one.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PRODUCT = ["bootstrap", "components", "ops", "plugin", "policy", "shared", "tidemill", "worker_image"]
OURS = [*PRODUCT, "localcloud"]
FILE_LINES = 350
LONG_FILES: dict[str, int] = {}
FOLDER_FILES = 25
FULL_FOLDERS = {
    "benchmarks": 31,  # a file per benchmark
    "policy/rules": 71,  # a rule per file: the listing is the documentation
    "tests/components": 44,
    "tidemill/cli/commands": 31,  # a file per command
    "tests/ops": 29,
    "tidemill": 27,
}
PUBLIC_METHODS = 25
WIDE_CLASSES: dict[str, int] = {}
PARAMETERS = 12
LONG_CALLS = {
    "tidemill/client/pipeline.py advise": 14,
    "tidemill/worker/loop.py __init__": 13,
}


def sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def over(sizes: Mapping[str, int], limit: int, exceptions: Mapping[str, int]) -> dict[str, int]:
    """What is over the limit without being an exception of this size, and exceptions that keep the limit."""
    too_large = {name: size for name, size in sizes.items() if size > limit}
    wrong = {name for name, _ in too_large.items() ^ exceptions.items()}
    return {name: sizes.get(name, 0) for name in wrong}


def public_methods(package: str) -> dict[str, int]:
    """Class -> its public methods and those that it inherits from classes of its package."""
    by_name = {node.name: node for path in sources(package) for node in classes(path)}

    def names(node: ast.ClassDef) -> set[str]:
        own = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases} - {node.name}
        return own.union(*(names(by_name[base]) for base in bases & by_name.keys()))

    return {
        f"{package}.{name}": sum(not method.startswith("_") for method in names(node)) for name, node in by_name.items()
    }


def parameters(path: Path) -> dict[str, int]:
    """Function -> how many arguments its callers may give."""
    functions = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.name == "__init__" or not node.name.startswith("_"))
    ]
    return {
        f"{path.relative_to(ROOT)} {node.name}": sum(
            each.arg not in ("self", "cls") for each in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        )
        for node in functions
    }


def test_files_have_one_subject() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources(*OURS)}
    assert over(sizes, FILE_LINES, LONG_FILES) == {}


def test_folders_can_be_read_at_a_glance() -> None:
    files = Counter(str(path.parent.relative_to(ROOT)) for path in sources(*OURS, "benchmarks", "examples", "tests"))
    assert over(files, FOLDER_FILES, FULL_FOLDERS) == {}


def test_classes_have_one_subject() -> None:
    sizes = {name: size for package in OURS for name, size in public_methods(package).items()}
    assert over(sizes, PUBLIC_METHODS, WIDE_CLASSES) == {}


def test_calls_can_be_remembered() -> None:
    sizes = {name: size for path in sources(*OURS) for name, size in parameters(path).items()}
    assert over(sizes, PARAMETERS, LONG_CALLS) == {}


def test_exceptions_only_shrink() -> None:
    assert over({"a": 3, "b": 9, "c": 4}, 5, {"b": 9}) == {}
    wrong = over({"a": 6, "b": 10, "c": 4, "d": 7}, 5, {"b": 9, "c": 7, "d": 8, "gone": 8})
    assert wrong == {"a": 6, "b": 10, "c": 4, "d": 7, "gone": 0}


def test_a_class_name_has_one_meaning() -> None:
    names = Counter(f"{package} {node.name}" for package in OURS for path in sources(package) for node in classes(path))
    assert [name for name, count in names.items() if count > 1] == []


def test_no_module_takes_the_name_of_a_packages_function() -> None:
    """Its import would put the module in the function's place."""
    packages = [(path.parent, ast.parse(path.read_text())) for path in sources(*PRODUCT) if path.name == "__init__.py"]
    defined = {
        folder / node.name for folder, tree in packages for node in tree.body if isinstance(node, ast.FunctionDef)
    }
    assert [str(name) for name in defined if name.is_dir() or name.with_suffix(".py").exists()] == []


def test_docstrings_say_what_a_thing_is_or_does() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [(path, node) for path in sources(*PRODUCT) for node in ast.walk(ast.parse(path.read_text()))]
    texts = [(path, ast.get_docstring(node) or "") for path, node in nodes if isinstance(node, documented)]
    assert [(str(path), text) for path, text in texts if text.startswith(("What ", "Whether "))] == []


CLOUD_NAMES = frozenset({"aws", "gcp", "s3", "gs"})
LINES_THAT_NAME_CLOUDS = {"components": 5, "localcloud": 2, "tidemill": 7, "worker_image": 1}
"""Lines outside the rooms of clouds and services, by package."""


def named_lines(path: Path) -> set[int]:
    """Lines of a file that name a cloud: as a text of its own, a variable or an attribute."""
    lines = set()
    for node in ast.walk(ast.parse(path.read_text())):
        name = getattr(node, "value", None) if isinstance(node, ast.Constant) else getattr(node, "attr", None)
        name = node.id if isinstance(node, ast.Name) else name
        if isinstance(node, ast.expr) and isinstance(name, str) and name in CLOUD_NAMES:
            lines.add(node.lineno)
    return lines


def in_a_room(path: Path) -> bool:
    """True for a file of one cloud or one service."""
    parts = {part.removesuffix(".py") for part in path.relative_to(ROOT).parts}
    services = path.parent.parent.name == "services"
    return services or bool(parts & CLOUD_NAMES) or path.stem.partition("_")[0] in CLOUD_NAMES


def test_clouds_are_named_in_their_rooms() -> None:
    counts = {
        package: sum(len(named_lines(path)) for path in sources(package) if not in_a_room(path)) for package in OURS
    }
    assert over(counts, 0, LINES_THAT_NAME_CLOUDS) == {}
