"""Makes functions that travelled by value: this file is `__init__.py` of the package `this_session` on a machine.

It runs in the process of the items' function, and nowhere else: not in a worker, not where the job was sent. So it
imports nothing of ours, and any Python from 3.8 on can say that it is not the one that made the functions. The package
has its own copy of cloudpickle, which made `functions.pickle`; an image needs none.
"""

import json
import linecache
import os
import pickle
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


class _Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        own = module.partition(".")[0] == "cloudpickle"
        return super().find_class(__name__ + "." + module if own else module, name)


def _check(made):
    here = "{}.{}".format(*sys.version_info)
    if here != made["python"]:
        raise ImportError(
            f"the function was made with Python {made['python']} and travels as its code; this machine has Python "
            f"{here} ({sys.executable}). Use an image with Python {made['python']}, or move the function into a "
            "module: then it travels by its name."
        )
    if made["packages"]:
        _compare(made["packages"])


def _compare(packages):
    import importlib.metadata

    for package, version in packages.items():
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            # An image may have a package that pip knows nothing of.
            continue
        if found != version:
            print(f"{package} is {found} here, and {version} where the function was made", file=sys.stderr)


def _load():
    with open(os.path.join(_FOLDER, "made.json"), encoding="utf-8") as file:
        made = json.load(file)
    _check(made)
    for name, lines in made["lines"].items():
        # As if they had come from a loader: a traceback takes them from here.
        text = [lines.get(str(number), "\n") for number in range(1, max(map(int, lines), default=0) + 1)]
        linecache.cache[name] = (sum(map(len, text)), None, text, name)
    with open(os.path.join(_FOLDER, "functions.pickle"), "rb") as file:
        try:
            return _Unpickler(file).load()
        except ModuleNotFoundError as error:
            raise ImportError(
                f"the function uses {error.name}, which this Python ({sys.executable}) does not have. Send the folder "
                "that has it, or whose requirements.txt names it: `code=DIR`."
            ) from None


globals().update(_load())
