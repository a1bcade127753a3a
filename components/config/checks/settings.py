"""Checks of all keys of a stack file: names that nothing reads, and credentials."""

import difflib
from collections.abc import Mapping
from typing import Any

from ...rooms import CLOUDS, cloud_room
from ..errors import ConfigError, unknown
from ..models import StackConfig

OWN = "tidemill"
_MISSPELT = 0.8
"""As similar as `tidemil` and `tidemill`, and more than another program's name."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Keys must begin with a program's or provider's name, and hold no credential.

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
