"""Other code for the later rounds of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.client.site import Log, Site
from tidemill.code import PACKAGE, CodeParts
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


def send(
    site: Site, spec: JobSpec, code: str | Path | Callable[..., Any], libs: Sequence[str | Path], log: Log
) -> OtherCode:
    """Pack a folder, a commit or a function, and upload it for a job.

    Raises:
        CallerError: The folder cannot be packed, the repository cannot be fetched, the job's function is of neither, or
            a function cannot take the place of the job's. Nothing was uploaded.
    """
    if callable(code):
        from tidemill.client.program.packing import pack_for
        from tidemill.code import upload

        packed = pack_for(site, None, libs, parts=_in_place_of(spec, code))
        upload(site.store, spec.job, packed)
        log(packed.words())
        return OtherCode(packed.sha256, None)
    if (spec.function or "").startswith(f"{PACKAGE}:"):
        raise CallerError(
            f"code is {str(code)!r}, and the function of {spec.job} is of a session: that folder does not have it.",
            "Give the corrected function itself: `code=FUNCTION`; or call `map` again.",
            what="code",
        )
    from tidemill.client.program.git_code import Checkout, opened
    from tidemill.client.program.packing import pack_for
    from tidemill.code import upload

    # Its folder goes with it.
    checkout = opened(code)
    folder, origin = (checkout.folder, checkout.origin) if isinstance(checkout, Checkout) else (checkout, None)
    assert folder is not None
    packed = pack_for(site, folder, libs)
    upload(site.store, spec.job, packed)
    log(packed.words(origin))
    return OtherCode(packed.sha256, origin)


def _in_place_of(spec: JobSpec, function: Callable[..., Any]) -> CodeParts | None:
    """The parts of a corrected function, which machines find by the name of the job's."""
    from tidemill.client.program.by_value import by_value
    from tidemill.client.program.importable import shipped
    from tidemill.client.program.own_modules import OwnModules

    module, _, name = (spec.function or "").partition(":")
    given = shipped(function)
    if module == PACKAGE and not (spec.item_type or "").startswith(f"{PACKAGE}:"):
        return by_value(name, {name: function}, OwnModules())
    if given.name == spec.function and module != PACKAGE and given.parts is not None:
        return given.parts
    if not module:
        problem = f"{spec.job} runs a command."
    elif module == PACKAGE:
        problem = f"the items of {spec.job} are objects of a class of its session."
    else:
        problem = f"{spec.job} calls {spec.function}, and machines find it by that name."
    raise CallerError(
        f"code is the function {given.name}; {problem}", "Call `map` again with the function.", what="code"
    )
