"""Code from a git repository: a branch, tag or commit is fetched here and packed like a folder.

Machines need no git and no login for the repository. What is sent is the commit that the branch names at that moment;
the job's spec records it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tidemill.errors import CallerError, one_line
from tidemill.folders import temporary_folder

PREFIX = "git+"
FETCH_SECONDS = 300.0
_SCHEMES = ("https", "ssh", "file")
_FORM = "git+https://HOST/REPOSITORY@BRANCH, with #subdirectory=FOLDER for a part of it"
_DENIED = re.compile(
    r"could not read (Username|Password)|Authentication failed|Permission denied|Repository not found|"
    r"does not appear to be a git repository|repository .* not found|HTTP 40[134]",
    re.IGNORECASE,
)


@dataclass(eq=False)
class Checkout:
    """A commit in a folder that is removed with this object.

    Attributes:
        folder: What is packed.
        origin: The repository at the commit, as it was typed otherwise.
    """

    top: Path
    folder: Path
    origin: str

    def __post_init__(self) -> None:
        self.close = weakref.finalize(self, shutil.rmtree, self.top, ignore_errors=True)


@dataclass(frozen=True)
class _Source:
    """A repository as it was typed."""

    url: str
    ref: str
    subdirectory: str

    def at(self, commit: str) -> str:
        part = f"#subdirectory={self.subdirectory}" if self.subdirectory else ""
        return f"{PREFIX}{self.url}@{commit}{part}"


def opened(code: str | Path | Checkout | None) -> str | Path | Checkout | None:
    """Fetch code that is in a repository; a folder stays as it is.

    Raises:
        CallerError: The repository, the branch or the folder in it is not there, or needs a login.
    """
    if not isinstance(code, str) or not code.startswith(PREFIX):
        return code
    source = _parsed(code)
    top = temporary_folder("git")
    try:
        commit = _fetch(source, top)
        folder = top / source.subdirectory
        if not folder.is_dir() or not folder.resolve().is_relative_to(top.resolve()):
            allowed = f"a folder of the repository at {source.ref}"
            raise CallerError.about("code", source.subdirectory, allowed, "Correct #subdirectory.")
        return Checkout(top, folder, source.at(commit))
    except BaseException:
        shutil.rmtree(top, ignore_errors=True)
        raise


def check_libs(libs: Sequence[str | Path], code: object) -> None:
    """Refuse folders that travel with code, when there is no code."""
    if libs and code is None:
        raise CallerError("`libs` is given without `code`.", "Give the folder of the program: `code=DIR`.", what="lib")


def _parsed(code: str) -> _Source:
    parts = urlsplit(code.removeprefix(PREFIX))
    path, at, ref = parts.path.rpartition("@")
    key, _, subdirectory = parts.fragment.partition("=")
    scheme_is_known = parts.scheme in _SCHEMES and (parts.netloc or parts.scheme == "file")
    if not scheme_is_known or not parts.path.strip("/") or parts.query or (parts.fragment and key != "subdirectory"):
        raise CallerError.about("code", code, _FORM, "Correct it.")
    if parts.password or (parts.username and parts.scheme == "https"):
        raise CallerError(
            "code holds a login, and a job's settings are stored in clear text.",
            "Leave it out: git asks its credential helper (`gh auth setup-git`), or use git+ssh.",
            what="code",
        )
    if at and not re.fullmatch(r"[^-\s:~^?*\[\\][^\s:~^?*\[\\]*", ref):
        raise CallerError.about("code", code, "the name of a branch or tag, or a whole commit, after @", "Correct it.")
    url = urlunsplit((parts.scheme, parts.netloc, path if at else parts.path, "", ""))
    return _Source(url, ref if at else "HEAD", subdirectory)


def _fetch(source: _Source, top: Path) -> str:
    """Fetch one commit without its history; returns its name."""
    _git(source, top, "init", "--quiet", "--template=")
    _git(source, top, "fetch", "--quiet", "--depth=1", "--no-tags", "--", source.url, source.ref)
    _git(source, top, "-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD")
    return _git(source, top, "rev-parse", "HEAD").strip()


def _git(source: _Source, folder: Path, *words: str) -> str:
    # Nothing may ask on the terminal, and whatever the user has set, a commit is always the same bytes.
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_DIR")},
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -oBatchMode=yes"),
        "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES),
    }
    command = ["git", "-c", "core.autocrlf=false", *words]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=FETCH_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise CallerError("code is a git repository, and git is not installed here.", "Install git.") from None
    except subprocess.TimeoutExpired:
        raise CallerError(
            f"code: {source.url} did not answer within {FETCH_SECONDS:g} s.", "Try again.", what="code"
        ) from None
    if done.returncode:
        raise _refused(source, done.stderr)
    return done.stdout


def _refused(source: _Source, problem: str) -> CallerError:
    lines = [line for line in problem.splitlines() if line.strip()]
    words = one_line(next((line for line in lines if line.startswith(("fatal", "remote", "ERROR"))), problem))
    if "couldn't find remote ref" in problem or "not our ref" in problem:
        allowed = f"a branch, a tag or a whole commit of {source.url}"
        return CallerError.about("code", source.ref, allowed, f"`git ls-remote {source.url}` lists them.")
    if _DENIED.search(problem):
        return CallerError(
            f"code: {source.url} cannot be read ({words}).",
            "Check the address. A private repository needs your login: a credential helper, or git+ssh.",
            what="code",
            value=source.url,
        )
    return CallerError(f"code: {source.url} cannot be fetched ({words}).", "Correct it.", what="code")
