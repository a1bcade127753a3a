"""Functions that travel by value: of a notebook's cell, of the program itself, lambdas, closures and partials.

What cloudpickle makes of them becomes the package `this_session` of the job's code, next to the modules of the caller's
own folders that they use. It is unpickled in the process that runs the items' function, and nowhere else.
"""

from __future__ import annotations

import functools
import io
import json
import shutil
import sys
import types
import weakref
from collections import ChainMap
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import cloudpickle

from tidemill.client.program.own_modules import OwnModules
from tidemill.client.program.source_lines import SourceLines
from tidemill.client.program.uses import MAX_BYTES, Uses, is_named
from tidemill.code import PACKAGE, CodeParts
from tidemill.errors import CallerError, one_line
from tidemill.folders import temporary_folder

_LOADER = Path(__file__).with_name("this_session.py")


def by_value(name: str, values: Mapping[str, Any], modules: OwnModules) -> CodeParts:
    """The parts of a job's code that hold functions and classes by value.

    Args:
        name: The function's, for messages.
        values: By the names that they have in the package.
        modules: Modules that travel already, to which those that they use are added.

    Raises:
        CallerError: They use what cannot leave this process, or more than may travel.
    """
    uses = Uses(name, _REDUCERS, modules)
    fingerprints = {key: uses.fingerprint(value) for key, value in sorted(values.items())}
    folder = temporary_folder("function")
    parts = CodeParts(
        files=modules.files,
        folders={**modules.folders, PACKAGE: folder},
        fingerprints=fingerprints,
    )
    weakref.finalize(parts, shutil.rmtree, folder, ignore_errors=True)
    sources = SourceLines(_THEIRS[types.CodeType])
    (folder / "functions.pickle").write_bytes(_pickled(name, values, sources))
    python, packages = "{}.{}".format(*sys.version_info), _versions(modules.packages)
    made = {"python": python, "packages": packages, "lines": sources.lines}
    (folder / "made.json").write_text(json.dumps(made))
    shutil.copyfile(_LOADER, folder / "__init__.py")
    own = Path(cloudpickle.__file__).parent
    shutil.copytree(own, folder / "cloudpickle", ignore=shutil.ignore_patterns("__pycache__"))
    return parts


def _pickled(name: str, values: Mapping[str, Any], sources: SourceLines) -> bytes:
    file = _Bounded()
    try:
        _Pickler(file, sources).dump(dict(values))
    except CallerError:
        raise
    except Exception as error:  # whatever a class raises that has its own way to be pickled
        raise CallerError(
            f"function is {name}, which cannot travel: {one_line(error)}.",
            "Make what it uses inside the function, or write it as a function of a module.",
            what="function",
        ) from None
    return file.getvalue()


def _versions(packages: set[str]) -> dict[str, str]:
    """The versions of installed packages, by the names under which pip knows them."""
    names = metadata.packages_distributions() if packages else {}
    found = {each for package in packages for each in names.get(package, ())}
    return {name: metadata.version(name) for name in sorted(found)}


class _Bounded(io.BytesIO):
    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > 2 * MAX_BYTES:
            raise CallerError(
                f"function takes more than {MAX_BYTES >> 20} MiB with it.", "Load it inside.", what="function"
            )
        return super().write(data)


def _cached(function: Any) -> Any:
    """A function that `functools.cache` remembers: it travels without what it remembers."""
    if is_named(function):
        return function.__reduce__()
    settings = function.cache_parameters()
    parts = (function.__wrapped__, settings["maxsize"], settings["typed"], functools._CacheInfo)  # type: ignore[attr-defined]
    return type(function), parts, vars(function)


_THEIRS: Any = cloudpickle.Pickler.dispatch_table


_REDUCERS = ChainMap[Any, Any]({functools._lru_cache_wrapper: _cached}, _THEIRS)


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file: io.BytesIO, sources: SourceLines) -> None:
        self.dispatch_table = ChainMap[Any, Any]({types.CodeType: sources.reduced}, _REDUCERS)
        super().__init__(file)
