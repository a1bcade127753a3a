"""Facts about each cloud that the platform team's commands need: a module per cloud, which imports no SDK."""

from importlib import import_module
from typing import Any

from components.rooms import CLOUDS


def facts(cloud: str) -> Any:
    return import_module(f"{__name__}.{cloud}")


CLIENTS: dict[str, tuple[str, ...]] = {cloud: facts(cloud).CLIENT for cloud in CLOUDS}
"""Packages for stacks of one cloud alone (requirements-<cloud>.txt), by the beginning of their modules' names."""
