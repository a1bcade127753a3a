"""Leaves files out of a folder of code, as git would."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import CallerError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


FILES = (".gitignore", ".tidemillignore")
"""The later one decides."""


class IgnoreRules:
    """Ignores files as git does: the .gitignore of a file's folder decides before those above it, up to the repository.

    https://git-scm.com/docs/gitignore; pathspec matches the patterns themselves. A `.tidemillignore` has the same form,
    and decides over the .gitignore beside it.
    """

    def __init__(self, root: Path) -> None:
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        above = [root, *root.parents]
        top = next((n for n, folder in enumerate(above) if (folder / ".git").exists()), 0)
        self._top = above[top]
        for folder in above[1 : top + 1]:
            self.enter(folder)

    def enter(self, folder: Path) -> None:
        from pathspec import GitIgnoreSpec

        lines = [line for name in FILES for line in _lines(folder / name)]
        self._specs[folder] = GitIgnoreSpec.from_lines(lines) if lines else None

    def __call__(self, path: Path, is_folder: bool) -> bool | None:
        """True if a pattern leaves a path out, False if one keeps it, None where none decides."""
        for folder in path.parents:
            spec = self._specs.get(folder)
            if spec is not None:
                decided = spec.check_file(path.relative_to(folder).as_posix() + "/" * is_folder).include
                if decided is not None:
                    return decided
            if folder == self._top:
                break
        return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines() if path.is_file() else []
    except OSError as error:
        raise unreadable(str(path), error) from None


def unreadable(name: str, error: OSError) -> CallerError:
    """The error for a file of the code that may not be read."""
    why = error.strerror or str(error)
    return CallerError(
        f"code: {name} cannot be read: {why}.", "Correct its mode, or add it to .tidemillignore.", what="code"
    )
