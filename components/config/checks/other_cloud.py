"""Refuses a key that only another cloud has."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from components.config.errors import ConfigError, key_path, shown


def refuse(path: Sequence[str | int], model: BaseModel, key: str, allowed: str, hint: str) -> None:
    """Refuse a key that only another cloud has, if it is set."""
    if key in model.model_fields_set and getattr(model, key) is not None:
        value = getattr(model, key)
        plain = value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
        raise ConfigError(key_path([*path, key]), shown(plain), allowed, hint)
