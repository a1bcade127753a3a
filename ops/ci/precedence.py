"""Files that Python runs in place of those that a reviewer reads.

Commands and programs run in the project's folder, which Python searches first. There a folder comes before a module of
its name, an extension before a source, and compiled code may say that its source need not be looked at.
[ADR 122](../../docs/adr/0122-what-runs-in-place-of-a-reviewed-file-is-guarded.md) says why.
Sources: https://docs.python.org/3/library/sys_path_init.html, https://docs.python.org/3/reference/import.html#cached-bytecode-invalidation
"""

import re
import sys
from collections.abc import Callable
from importlib.metadata import packages_distributions

from ops.review.models import Severity

_COMPILED = re.compile(r".*\.(pyc|so)")
_BESIDE = re.compile(r"(?P<module>\w+)(/__init__)?\.py")
_PACKAGE = re.compile(r"(?P<module>.+/\w+)/__init__\.py")


def taken_first(path: str, read: Callable[[str, bool], str | None]) -> tuple[Severity, str] | None:
    """How bad a file is that Python runs in place of another, and why; None of any other file.

    Args:
        read: The text of a path, before (True) or after; None where it does not exist.
    """
    if _COMPILED.fullmatch(path) and read(path, False) is not None:
        return "critical", "Python may run this compiled file in place of a source, with CI's logins"
    beside, package = _BESIDE.fullmatch(path), _PACKAGE.fullmatch(path)
    if not (beside or package) or read(path, True) is not None or read(path, False) is None:
        return None
    if beside:
        name = beside["module"]
        if name in sys.stdlib_module_names or name in packages_distributions():
            return "critical", f"{name} is imported from here in place of the package, with CI's logins"
        return "high", f"{name} is imported from here before any package of that name, with CI's logins"
    module = f"{package['module']}.py" if package else ""
    if read(module, True) is not None and read(module, False) is not None:
        return "critical", f"Python runs this folder in place of {module}, which stays"
    return None
