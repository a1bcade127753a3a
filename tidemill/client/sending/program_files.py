"""Files of a job's program, each with what tells it from another of its name.

A file that travels is named as in the code, a function by value as `this_session:NAME`. On this machine, commands use
files where they are: those have full paths here. A named input is `{NAME}`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from tidemill.client.items.local_files import look, path_of
from tidemill.client.program.used_files import used_files
from tidemill.client.site import Site
from tidemill.code import CodeArchive, digest_of
from tidemill.errors import CallerError
from tidemill.job import JobSpec

if TYPE_CHECKING:
    from tidemill.client.upload.hashes import Hashes


class ProgramFiles(NamedTuple):
    """Files of a job's program.

    Attributes:
        code: Those that travel, by name in the code: SHA-256, target of a link or fingerprint of a function.
        in_place: Those that are used where they are, by full path, and named inputs as `{NAME}`: SHA-256, or the URI of
            an input.
    """

    code: Mapping[str, str]
    in_place: Mapping[str, str]

    @property
    def files(self) -> dict[str, str]:
        """All of them, by name."""
        return {**self.code, **self.in_place}

    @property
    def digest(self) -> str:
        """SHA-256 in hex of all of them together: equal for programs that are the same."""
        return digest_of(self.files)


def program_files(site: Site, draft: JobSpec, inputs: Mapping[str, str], packed: CodeArchive | None) -> ProgramFiles:
    """The files of a job's program. Those that are unchanged since an earlier look are not read.

    Args:
        site: Where the job goes.
        draft: Its spec.
        inputs: Its named inputs, by URI.
        packed: Its code.
    """
    code = {} if packed is None else packed.contents
    if not site.local:
        return ProgramFiles(code, {f"{{{name}}}": uri for name, uri in inputs.items()})
    # Imported late: it needs SQLite, which the worker's image does not have.
    from tidemill.client.upload.hashes import Hashes

    with closing(Hashes()) as hashes:
        in_place = {str(path): _sha256(hashes, str(path)) for path in used_files(draft.command or (), draft.env)}
        in_place |= {f"{{{name}}}": _of_input(hashes, uri) for name, uri in inputs.items()}
    return ProgramFiles(code, in_place)


def _of_input(hashes: Hashes, uri: str) -> str:
    path = path_of(uri)
    if path is None:
        return uri
    if not os.path.isdir(path):
        return _sha256(hashes, path)
    return digest_of({os.path.relpath(file, path): _sha256(hashes, file) for file in _below(path)})


def _below(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        yield from (os.path.join(parent, name) for name in names)


def _sha256(hashes: Hashes, path: str) -> str:
    try:
        file = look(path)
        return hashes.find(file) or hashes.read(file)
    except CallerError:
        # It cannot be read, or changes while it is read: nothing tells that it is the same as before.
        return f"unknown at {time.time_ns()}"
