"""Objects of a job that never change: they are read, checked against their SHA-256 and parsed."""

from __future__ import annotations

import hashlib
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tidemill.errors import DamagedError, StoreError
from tidemill.store import Store
from tidemill.version import __version__

M = TypeVar("M", bound=BaseModel)


class TamperedError(StoreError):
    """An object that never changes has changed. Trying again is useless."""


class UnreadableError(StoreError):
    """An object was written for a newer Tidemill. Trying again is useless."""


def read_document(store: Store, name: str, model: type[M], sha256: str | None = None) -> M:
    """Read an object, compare its SHA-256 if one is given, and parse it.

    Raises:
        StoreMissingError: There is no such object.
        TamperedError: Its SHA-256 differs.
        UnreadableError: It was written for a newer Tidemill.
        DamagedError: It is not JSON.
    """
    data = store.get(name)
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise TamperedError(f"{store.uri_of(name)} is not what was submitted: its SHA-256 differs.")
    return parse_document(data, store.uri_of(name), model)


def parse_document(data: bytes, uri: str, model: type[M]) -> M:
    """Parse an object (see `read_document` for the errors)."""
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            raise DamagedError(f"{uri} is damaged: {first['msg']}.") from None
        where = ".".join(str(part) for part in first["loc"])
        raise UnreadableError(
            f"{uri} cannot be read by Tidemill {__version__}: {where}: {first['msg']}.",
            "A newer Tidemill may have written it: update this one.",
        ) from None
