"""Packs a job's code for where it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidemill.client.site import Site
from tidemill.code import CodeArchive, CodeParts, pack
from tidemill.code.entries import TooLargeError

_USED_IN_PLACE = "On this machine, leave `code` out: the program and the modules of its folder are used where they are."


def pack_for(
    site: Site,
    folder: str | Path | None,
    libs: Sequence[str | Path],
    *,
    command: Sequence[str] = (),
    parts: CodeParts | None = None,
) -> CodeArchive:
    """Pack code as `pack` does, with its packages where a site has none.

    Raises:
        CallerError: It cannot be packed. Where it is too large for that, the error says how to do without.
    """
    try:
        return pack(folder, libs, packages=not site.has_packages, command=command, parts=parts)
    except TooLargeError as error:
        fix = f"{error.fix} {_USED_IN_PLACE}" if site.local else error.fix
        raise TooLargeError(error.problem, fix, what=error.what) from None
