"""Errors of functions that miss a file or a module which stayed where the job was sent from."""

from __future__ import annotations

import os
import re

_FILE = re.compile(r"^FileNotFoundError: .*: '(.+)'$", re.MULTILINE)
_MODULE = re.compile(r"^ModuleNotFoundError: ", re.MULTILINE)
_OF_MODULES = "Of one's own modules, those travel that code imports by name: code=DIR (--code DIR) sends a folder."
_THERE = "An item runs in a folder of its own; this file is in pathlib.Path(__file__).parent, beside the code."
_NOT_THERE = (
    "The code of this job does not have that file. Modules travel by themselves; code=DIR (--code DIR) sends a folder "
    "with its files, which are then in pathlib.Path(__file__).parent."
)


def with_remedy(error: str, code: str | None) -> str:
    """An error with a line on how the file gets to a machine. `code` is the folder of what travelled."""
    if not code:
        return error
    if _MODULE.search(error):
        return f"{error}\n{_OF_MODULES}"
    missing = _FILE.findall(error)
    if not missing or (os.path.isabs(missing[-1]) and not missing[-1].startswith(f"{code}/")):
        return error
    return f"{error}\n{_THERE if os.path.exists(os.path.join(code, missing[-1])) else _NOT_THERE}"
