"""Rules of your company's tags that every cloud has; a cloud's room `keys` knows what that cloud refuses."""

import re
from collections.abc import Mapping, Sequence

from ...rooms import cloud_room
from ..errors import ConfigError, key_path, shown
from ..models import StackConfig

OURS = re.compile(r"tidemill[:_-]", re.IGNORECASE)
ALLOWED = "keys that do not begin with tidemill, because those are Tidemill's own"


def check_tags(config: StackConfig) -> None:
    """Refuse tags that the stack's cloud refuses; of `environment_tags` only those of this stack are looked at."""
    environment = ["environment_tags", config.environment, config.cloud]
    check_each(environment, config.tags_of_environment, config.cloud)
    check_each(["tags"], config.tags, config.cloud)
    check_together(["tags"], config.company_tags, config.cloud)


def check_each(path: Sequence[str], tags: Mapping[str, str], cloud: str) -> None:
    """Refuse the first key or value that is wrong by itself."""
    room = cloud_room(cloud, "keys")
    for key, value in tags.items():
        at = key_path([*path, key])
        if OURS.match(key):
            raise ConfigError(at, shown(key), ALLOWED, "Rename it")
        if wrong := room.wrong_tag_key(key):
            raise ConfigError(at, shown(key), *wrong)
        if wrong := room.wrong_tag_value(value):
            raise ConfigError(at, shown(value), *wrong)


def check_together(path: Sequence[str], tags: Mapping[str, str], cloud: str) -> None:
    """Refuse too many tags, and keys that differ only in case."""
    most = cloud_room(cloud, "keys").MOST_TAGS
    if len(tags) > most:
        allowed = f"at most {most}, those of the environment included; the cloud's other ones are for jobs and Tidemill"
        raise ConfigError(key_path(path), f"{len(tags)} tags", allowed, "Remove some")
    spelled: dict[str, str] = {}
    for key in tags:
        if (other := spelled.setdefault(key.lower(), key)) != key:
            # Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html (case sensitivity)
            allowed = f"keys that differ in more than case, unlike {shown(other)}: IAM takes the two for one"
            raise ConfigError(key_path([*path, key]), shown(key), allowed, "Keep one spelling, for the environment too")
