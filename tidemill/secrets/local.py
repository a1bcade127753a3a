"""Personal secrets on this machine: a file in the user's own config folder, which only the user may read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tidemill.errors import CallerError
from tidemill.folders import config_folder, one_at_a_time, remove_half_written, replace_file
from tidemill.secrets.rules import read_document, write_document
from tidemill.secrets.secret_store import SecretStore


class LocalSecrets(SecretStore):
    """The file, and before it the environment of the process that runs a job."""

    @property
    def place(self) -> str:
        return str(self._path)

    @property
    def _path(self) -> Path:
        return config_folder() / "secrets.json"

    def read(self) -> dict[str, str]:
        """The file's secrets; none where there is no file.

        Raises:
            CallerError: Others may read it, or it cannot be read.
        """
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.getuid() or status.st_mode & 0o077:
                    fix = f"chmod 600 {self._path}"
                    raise CallerError(f"{self._path} is not yours alone.", f"Make it so: {fix}.", command=fix)
                return read_document(file.read())
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise CallerError(f"{self._path} cannot be read: {error.strerror}.", "Make it readable to you.") from None
        except ValueError:
            raise CallerError(f"{self._path} is damaged.", "Remove it, and set your secrets again.") from None

    def change(self, values: Mapping[str, str], removed: Collection[str] = ()) -> None:
        with self._changing():
            kept = {name: value for name, value in self.read().items() if name not in removed}
            replace_file(self._path, write_document({**kept, **values}).encode())

    def forget_earlier(self) -> None:
        with self._changing():
            pass

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep others from changing the file. What killed commands have left is removed first: it may hold a value that
        is removed or replaced now."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with one_at_a_time(self._path.parent):
                remove_half_written(self._path)
                yield
        except OSError as error:
            fix = "Give the secret as a variable of the environment instead."
            raise CallerError(f"{self._path} cannot be written: {error.strerror}.", fix) from None

    def of_job(self, names: Collection[str]) -> dict[str, str]:
        """The environment's, and of what it lacks the file's."""
        here = {name: value for name in names if (value := os.environ.get(name))}
        return {**super().of_job([name for name in names if name not in here]), **here}
