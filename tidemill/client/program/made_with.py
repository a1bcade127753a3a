"""The Python that a function by value was made with: no other minor version can load it."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import zstandard

from tidemill import layout
from tidemill.client.site import Site
from tidemill.clouds.local.desk import folder_of
from tidemill.code import PACKAGE
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger

_MADE = f"{PACKAGE}/made.json"
_ASK = "import sys; print('{}.{}'.format(*sys.version_info))"
_SECONDS = 30


def check_python(site: Site, spec: JobSpec, python: str) -> None:
    """Check, before a local job goes on, that a Python can load the job's function.

    Raises:
        CallerError: The function was made with another minor version.
    """
    code = Ledger(site.store, spec.job).rounds()[-1].code
    if code is None or not (spec.function or "").startswith(f"{PACKAGE}:"):
        return
    made, given = _made(folder_of(site.store.uri) / layout.code(spec.job, code)), _version(python)
    if made and given and made != given:
        raise CallerError.about(
            "python",
            python,
            f"Python {made}, which made the function of {spec.job}; this one is {given}",
            "Give another, or move the function into a module: then it travels by its name.",
        )


def _made(archive: Path) -> str | None:
    """The version in a job's code; None where nothing tells it. A worker names code that is damaged."""
    try:
        with (
            archive.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            made = next((tar.extractfile(member) for member in tar if member.name == _MADE), None)
            return made and str(json.loads(made.read())["python"])
    except (OSError, tarfile.TarError, zstandard.ZstdError, ValueError, KeyError, TypeError):
        return None


def _version(python: str) -> str | None:
    """The version of a Python of this machine; None where it does not start, which its items tell."""
    try:
        asked = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip()
