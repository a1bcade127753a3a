"""Checks of all keys of a stack file: names that nothing reads, and credentials."""

import difflib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ...rooms import CLOUDS, cloud_room
from ..errors import ConfigError, shown, unknown
from ..models import StackConfig
from .tags import ALLOWED, OURS

OWN = "tidemill"
_MISSPELT = 0.8
"""As similar as `tidemil` and `tidemill`, and more than another program's name."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Keys must begin with a program's or provider's name, and hold no credential; a provider's default tags are none
    of Tidemill's, in no spelling: IAM takes `Tidemill:Team` and `tidemill:team` for one key.

    Args:
        settings: The `config:` of a stack file.

    Raises:
        ConfigError: the first key that is wrong.
    """
    # Not when this module is imported: the clouds' keys may be what imports it.
    providers = [cloud_room(cloud, "keys") for cloud in CLOUDS]
    own = [f"{OWN}:{name}" for name in StackConfig.model_fields]
    places = [key for each in providers for key in each.PLACES]
    credentials = {key for each in providers for key in each.CREDENTIALS}
    for key, value in settings.items():
        of, colon, _ = key.partition(":")
        if not colon or (of != OWN and difflib.SequenceMatcher(None, of, OWN).ratio() > _MISSPELT):
            raise unknown(key, f"{OWN}:{key.rpartition(':')[2]}", [*own, *places])
        # `{secure: …}` is encrypted by the stack's key.
        if key in credentials and isinstance(value, str):
            raise ConfigError(
                key,
                f"a text of {len(value)} characters (not shown)",
                "no credential in a stack file, which others read",
                "Remove it and log in to the cloud instead; if this was the credential itself, replace it",
            )
    for place, tag in (found for each in providers for found in _default_tags(settings, each.DEFAULT_TAGS)):
        if OURS.match(tag):
            raise ConfigError(place, shown(tag), ALLOWED, "Rename it")


def _default_tags(settings: Mapping[str, Any], at: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Keys of the tags that a provider adds, each with its place; the schema finds what is no mapping."""
    held: Any = settings.get(at[0])
    with suppress(ValueError):
        held = json.loads(held) if isinstance(held, str) else held
    for key in at[1:]:
        held = held.get(key) if isinstance(held, Mapping) else None
    if isinstance(held, Mapping):
        yield from ((".".join(at), str(key)) for key in held)
