"""Leaves files out of a folder of code, as git would."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.errors import CallerError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class IgnoreRules:
    """Ignores files as git does: the .gitignore of a file's folder decides before those above it, up to the repository.

    https://git-scm.com/docs/gitignore; the patterns themselves are matched by pathspec.
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

        path = folder / ".gitignore"
        try:
            text = path.read_text(errors="replace") if path.is_file() else None
        except OSError as error:
            raise unreadable(str(path), error) from None
        self._specs[folder] = None if text is None else GitIgnoreSpec.from_lines(text.splitlines())

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


def unreadable(name: str, error: OSError) -> CallerError:
    """The error for a file of the code that may not be read."""
    why = error.strerror or str(error)
    return CallerError(
        f"code: {name} cannot be read: {why}.", "Correct its mode, or add it to .gitignore.", what="code"
    )
