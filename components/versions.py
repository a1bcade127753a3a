"""Refuses a cloud's SDK that the components were not written for, before anything is created."""

import re
from importlib.metadata import PackageNotFoundError, version

from .config.errors import ConfigError


def check_sdk(package: str, least: str, below: str) -> None:
    """Refuse an installed version outside of the wheel's own range, which `pip` checks only when it installs both.

    The engine takes the provider of the SDK's version. A missing SDK is left to the import that needs it.

    Args:
        package: The SDK's distribution, `pulumi-aws`.
        least: The first version that works.
        below: The first that may not.

    Raises:
        ConfigError: It is another version.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        return
    if not _parts(least) <= _parts(found) < _parts(below):
        allowed = f"{least} or later, and earlier than {below}"
        raise ConfigError(package, found, allowed, f"Install it: pip install '{package}>={least},<{below}'")


def _parts(text: str) -> tuple[int, ...]:
    """``7.30.1`` → ``(7, 30, 1)``, without what follows the numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
