"""Mutant: a commit believes "already exists" without reading the object back. Starts the ordinary worker."""

import runpy

from tidemill.store import CreateResult, Store


def believe(self: Store, name: str, data: bytes) -> CreateResult:
    return CreateResult(False, data)


if __name__ == "__main__":
    Store._read_back = believe  # type: ignore[method-assign]
    runpy.run_module("tidemill.worker", run_name="__main__")
