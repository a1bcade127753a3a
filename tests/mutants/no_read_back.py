"""Mutant: a commit believes "already exists" without reading the object back. Starts the ordinary worker."""

import runpy

from tidemill.store import Created, Store


def believe(self: Store, name: str, data: bytes) -> Created:
    return Created(False, data)


if __name__ == "__main__":
    Store._read_back = believe  # type: ignore[method-assign]
    runpy.run_module("tidemill.worker", run_name="__main__")
