"""Functions (invokes) of a provider, and the arguments that each one knows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from .convert import RefusedError, nearest
from .table import UnknownTypeError

Function = tuple[Callable[[dict[str, Any], Any], dict[str, Any]], Collection[str]]


def look_up(functions: Mapping[str, Function], token: str, args: dict[str, Any], clients: Any) -> dict[str, Any]:
    """Return the answer of one function.

    Raises:
        UnknownTypeError: The function does not exist here; RefusedError: The function does not know an argument.
    """
    found = functions.get(token)
    if found is None:
        raise UnknownTypeError(f"function '{token}' is not known to localcloud{nearest(token, functions)}")
    function, known = found
    for key in args:
        if key not in known:
            raise RefusedError(key, f"no such argument of {token}{nearest(key, known)}")
    return function({key: value for key, value in args.items() if value is not None}, clients)
