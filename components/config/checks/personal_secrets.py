"""Rules of personal secrets: every job of a stack can read them, so the stack must be one person's."""

import re

from ..access_models import Access
from ..errors import ConfigError, key_path, shown
from ..later import is_plain

_STACKS = "Give each person a stack of their own, or declare a secret of the team under queues.<queue>.secrets"


def check_person(access: Access, person: re.Pattern[str], allowed: str) -> None:
    """A stack with personal secrets must have one submitter, and that must be one person."""
    if not access.personal_secrets:
        return
    if len(access.submitters) != 1:
        raise ConfigError(
            key_path(["access", "personal_secrets"]),
            f"true with {len(access.submitters)} submitters",
            "true with one: every job of the stack can read them",
            _STACKS,
        )
    (only,) = access.submitters
    if not is_plain(only) or not person.fullmatch(only):
        path = key_path(["access", "submitters", 0])
        raise ConfigError(path, shown(only), f"{allowed}, with personal_secrets", _STACKS)
