"""The config of the checked stack, as the engine passes it.

``front`` reads it from the message; pulumi-policy keeps only the stack's tags of it.
Source: https://github.com/pulumi/pulumi/blob/master/proto/pulumi/analyzer.proto (AnalyzerStackConfigureRequest)
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any


class Settings:
    """A stack's config by full keys (``tidemill:network``), without secret values."""

    def __init__(self, values: Mapping[str, str] | None = None, secret: Iterable[str] = ()) -> None:
        hidden = set(secret)
        self._values = {key: text for key, text in (values or {}).items() if key not in hidden}

    def text(self, key: str) -> str | None:
        return self._values.get(key)

    def data(self, key: str) -> Any:
        """A mapping or list of the stack file; None if it is absent or not JSON."""
        try:
            return json.loads(self._values.get(key, "null"))
        except ValueError:
            return None

    def region(self, cloud: str) -> str | None:
        return self.text(f"{cloud}:region")

    @property
    def egress(self) -> str | None:
        """How the stack's machines reach the internet: ``public``, ``nat`` or ``endpoints``.

        ``public`` is the default of a Tidemill stack. None for other programs, and for a network of another stack or
        owner, whose machines have no public addresses.
        """
        network = self.data("tidemill:network") or {}
        if not isinstance(network, Mapping) or set(network) - {"create"}:
            return None
        mode = (network.get("create") or {}).get("egress")
        return mode or ("public" if "tidemill:team" in self._values else None)


_current = Settings()


def settings() -> Settings:
    """The config of the stack that is judged."""
    return _current


def use(values: Settings) -> None:
    """Set the config of the stack that is judged."""
    global _current  # noqa: PLW0603  one pack judges one stack
    _current = values
