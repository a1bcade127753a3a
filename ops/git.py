"""Asks git about this checkout: where a change began, which files it changes, and their earlier content."""

import io
import subprocess
import tarfile
from pathlib import Path

import click

from ops import project
from ops.review.document import Base

_TIMEOUT_SECONDS = 60
_HISTORY = "In CI, fetch the whole history (fetch-depth: 0)."


def base(ref: str) -> Base:
    """The commit at which HEAD left a branch, so that later commits of the branch are not part of the change.

    Raises:
        click.UsageError: This is not a git checkout, git does not know the commit, or it shares no history with HEAD.
    """
    commit = known(ref)
    output = _git("merge-base", commit, "HEAD")
    if output.returncode:
        raise click.UsageError(f"--base {ref}: it has no commit in common with HEAD. {_HISTORY}")
    return Base(ref=ref, commit=output.stdout.decode().strip())


def changed(ref: str) -> list[str]:
    """The project's paths that have changed since HEAD left a branch, deleted files and old names included.

    Edits that are not committed count. Of files that git does not know only stack files do: CI writes others.

    Raises:
        click.UsageError: As `base`.
        click.ClickException: git could not compare them.
    """
    edited = _paths("diff", "--relative", "--name-only", "--no-renames", "-z", base(ref).commit, "--")
    new = _paths("ls-files", "--others", "--exclude-standard", "-z", "--", "stacks", *project.HOMES)
    return list(dict.fromkeys([*edited, *new]))


def differing(commit: str) -> list[str]:
    """The paths in which the project's folder differs from a commit, including edits that are not committed.

    Raises:
        click.ClickException: git could not compare them.
    """
    changed = _paths("diff", "--relative", "--name-only", "--no-renames", "-z", commit, "--")
    return sorted({*changed, *_paths("ls-files", "--others", "--exclude-standard", "-z")})


def content(commit: str, path: str) -> str | None:
    """The text of a file of the project as it is in a commit; None if the commit does not have it.

    Raises:
        click.ClickException: git could not read it.
    """
    kind = tree(commit, (path,)).split(" ", 2)[1:2]
    return _read("cat-file", "blob", f"{commit}:./{path}").decode(errors="replace") if kind == ["blob"] else None


def tree(commit: str, names: tuple[str, ...]) -> str:
    """The modes, object ids and names of files and folders of the project in a commit: a digest of their content.

    Raises:
        click.ClickException: git could not read them.
    """
    return _read("ls-tree", "-z", commit, "--", *names).decode(errors="replace")


def extract(commit: str, names: tuple[str, ...], folder: Path) -> None:
    """Write files and folders of the project as they are in a commit; skip those that it does not have.

    Raises:
        click.ClickException: git could not read them.
    """
    there = {*_paths("ls-tree", "--name-only", "-z", commit)}
    packed = _read("archive", "--format=tar", commit, "--", *(name for name in names if name in there))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        # Python checks what it unpacks from 3.11.4 on; git made this archive from the project itself.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def known(ref: str) -> str:
    """The commit that a branch, tag or commit names.

    Raises:
        click.UsageError: This is not a git checkout, or git does not know it.
    """
    if (inside := _git("rev-parse", "--verify", "HEAD")).returncode:
        raise click.UsageError(f"--base {ref}: there is no commit to compare with here: {_said(inside)}.")
    for name in (ref, f"origin/{ref}"):
        output = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if not output.returncode and name == ref:
            return output.stdout.decode().strip()
        if not output.returncode:
            raise click.UsageError(f"--base {ref}: git does not know this commit. Did you mean {name}?")
    raise click.UsageError(f"--base {ref}: git does not know this commit, branch or tag. {_HISTORY}")


def _paths(*arguments: str) -> list[str]:
    """The paths that git lists; a name that is not UTF-8 is shown with marks in place of its bytes."""
    return [path for path in _read(*arguments).decode(errors="replace").split("\0") if path]


def _read(*arguments: str) -> bytes:
    """The output of git. An answer that it could not give is an error, never an empty one."""
    done = _git(*arguments)
    if done.returncode:
        raise click.ClickException(f"git {arguments[0]}: {_said(done)}.")
    return done.stdout


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["git", *arguments],
            cwd=project.ROOT,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        raise click.UsageError("git is not on PATH; --base needs it.") from None
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"git {arguments[0]} did not end within {_TIMEOUT_SECONDS} s.") from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip().removeprefix("fatal: ").rstrip(".")
