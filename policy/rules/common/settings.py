"""The config of the stack that is judged, as the engine hands it over.

``front`` hears it in the message that pulumi-policy reads only the stack's tags of.
Source: https://github.com/pulumi/pulumi/blob/master/proto/pulumi/analyzer.proto (AnalyzerStackConfigureRequest)
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any


class Settings:
    """A stack's config by full keys (``tidemill:network``); secret values are never kept."""

    def __init__(self, values: Mapping[str, str] | None = None, secret: Iterable[str] = ()) -> None:
        hidden = set(secret)
        self._values = {key: text for key, text in (values or {}).items() if key not in hidden}

    def text(self, key: str) -> str | None:
        """A plain value."""
        return self._values.get(key)

    def data(self, key: str) -> Any:
        """A value that the stack file writes as a mapping or a list; None where it is absent or no JSON."""
        try:
            return json.loads(self._values.get(key, "null"))
        except ValueError:
            return None

    def region(self, cloud: str) -> str | None:
        """The region of a cloud's provider."""
        return self.text(f"{cloud}:region")

    @property
    def egress(self) -> str | None:
        """How the stack says that its machines reach the world: ``public``, ``nat``, ``endpoints``.

        ``public`` is what a Tidemill stack that says nothing has. None is said by another program, and where the
        network is another stack's or somebody else's, whose machines have no addresses of their own.
        """
        network = self.data("tidemill:network") or {}
        if not isinstance(network, Mapping) or set(network) - {"create"}:
            return None
        said = (network.get("create") or {}).get("egress")
        return said or ("public" if "tidemill:team" in self._values else None)


_current = Settings()


def settings() -> Settings:
    """The config of the stack that is judged."""
    return _current


def use(values: Settings) -> None:
    """Set the config of the stack that is judged."""
    global _current  # noqa: PLW0603  one pack judges one stack
    _current = values
