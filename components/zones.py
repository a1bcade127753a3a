"""The zones that a config names."""

import re
from collections.abc import Sequence

from .config import ConfigError
from .config.errors import key_path, nearest, shown

_ZONE = re.compile(r"[a-z]{2,}(?:-[a-z]+)+-\d([a-z])|[a-z]+-[a-z]+\d+-([a-z])")
"""`us-west-2a`, `us-central1-a`; neither local zones (`us-west-2-lax-1a`) nor AI zones have a letter of their own."""


def chosen(queue: str, wanted: Sequence[str], zones: Sequence[str], allowed: str) -> list[str]:
    """The zones that a queue names by letter or in full, in the order of ``zones``, each once.

    Args:
        zones: Full names of the zones that there are.
        allowed: What they are, for the error.
    """
    here = ("queues", queue, "machines", "zones")
    kept = {zone_of((*here, index), name, zones, allowed) for index, name in enumerate(wanted)}
    return [zone for zone in dict.fromkeys(zones) if zone in kept]


def zone_of(at: Sequence[str | int], name: str, zones: Sequence[str], allowed: str) -> str:
    """The zone that a key names by letter or in full.

    Raises:
        ConfigError: none of ``zones`` has that name.
    """
    named = {zone: zone for zone in zones} | {letter: zone for zone in zones if (letter := _letter(zone))}
    if name not in named:
        raise ConfigError(
            key_path(at),
            shown(name),
            f"{allowed}: {', '.join(dict.fromkeys(zones)) or 'there are none'}",
            f"Did you mean {guess}?" if (guess := nearest(name, zones)) else "Name one of them, or all",
        )
    return named[name]


def _letter(zone: str) -> str | None:
    match = _ZONE.fullmatch(zone)
    return match[1] or match[2] if match else None
