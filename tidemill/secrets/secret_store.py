"""Where a person keeps secrets for their jobs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping


class SecretStore(ABC):
    """Personal secrets by name. Every method may raise `CloudError`."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Its name, for people."""

    @abstractmethod
    def read(self) -> dict[str, str]:
        """All of them."""

    @abstractmethod
    def change(self, values: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """Set some and remove some; the others stay.

        Raises:
            CallerError: All of them together are too long.
        """

    def forget_earlier(self) -> None:  # noqa: B027
        """Remove earlier values that a killed change has left."""

    def of_job(self, names: Collection[str]) -> dict[str, str]:
        """Those that a job asks for, as far as they are set."""
        values = self.read()
        return {name: values[name] for name in names if name in values}
