"""Other code for the later rounds of a job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tidemill.client.site import Log, Site
from tidemill.code import PACKAGE
from tidemill.errors import CallerError
from tidemill.job import JobSpec


class OtherCode(NamedTuple):
    """Code that a round runs with.

    Attributes:
        sha256: Of the packed folder, by which the store has it; None for no code.
        origin: The repository at the commit that it is from, if it is from one.
    """

    sha256: str | None
    origin: str | None


def send(site: Site, spec: JobSpec, code: str | Path, libs: Sequence[str | Path], log: Log) -> OtherCode:
    """Pack a folder or a commit, and upload it for a job.

    Raises:
        CallerError: The folder cannot be packed, the repository cannot be fetched, or the job's function is of neither.
            Nothing was uploaded.
    """
    if (spec.function or "").startswith(f"{PACKAGE}:"):
        raise CallerError(
            f"code is {str(code)!r}, and the function of {spec.job} is of a session: that folder does not have it.",
            "Call `map` again with the corrected function; with the same `name`, the new job takes its place.",
            what="code",
        )
    from tidemill.client.program.git_code import Checkout, opened
    from tidemill.code import pack, upload

    # Its folder goes with it.
    checkout = opened(code)
    folder, origin = (checkout.folder, checkout.origin) if isinstance(checkout, Checkout) else (checkout, None)
    assert folder is not None
    packed = pack(folder, libs, packages=not site.has_packages)
    upload(site.store, spec.job, packed)
    log(packed.words(origin))
    return OtherCode(packed.sha256, origin)
