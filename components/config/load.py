"""Read a stack's config: from the running Pulumi program, or from a stack file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pulumi.runtime import config as runtime
from pydantic import BaseModel, ValidationError

from components.config.checks import check
from components.config.defaults import fill, fill_gcp_queue
from components.config.errors import ConfigError, from_pydantic, key_path
from components.config.models import StackConfig
from components.config.queue_models import Queue

PROJECT = "tidemill"
_TEXTS = ("team", "environment", "cloud", "permission_boundary", "worker_image")


_Model = TypeVar("_Model", bound=BaseModel)


def part(model: type[_Model], values: Mapping[str, Any], *at: str) -> _Model:
    """One object of a stack's config, for a component that is used alone.

    Args:
        model: the object's model.
        values: its keys.
        at: where it is in a stack's config, for the error.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise from_pydantic(error, model, at) from None


def parse(values: Mapping[str, Any]) -> StackConfig:
    """A stack's config from its keys without their ``tidemill:``.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    config = part(StackConfig, fill(values))
    check(config)
    return config


def gcp_queue(values: Mapping[str, Any], name: str) -> Queue:
    """A queue of a stack on GCP, with the defaults that it has there, for a component that is used alone.

    Args:
        values: the queue's keys.
        name: the queue's name, for the error.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    return part(Queue, fill_gcp_queue(values), "queues", name)


def from_pulumi() -> StackConfig:
    """The config of the stack that the running program is for.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    values: dict[str, Any] = {}
    # Config() answers only keys that it is asked for, and an unknown key must be seen: the environment has them all.
    for key, text in {**runtime.get_config_env(), **runtime.CONFIG.get()}.items():
        project, _, name = key.partition(":")
        if project != PROJECT:
            continue
        if runtime.is_config_secret(key):
            raise ConfigError(
                key,
                "a secret value (not shown)",
                "plain values",
                f"Set it again without --secret; secrets belong into Secrets Manager, their ARNs into {PROJECT}:queues",
            )
        values[name] = text if name in _TEXTS else _from_json(name, text)
    return parse(values)


def from_file(path: Path) -> StackConfig:
    """The config in a stack file, ``Pulumi.<stack>.yaml``.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        settings = content.get("config") or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError, AttributeError) as error:
        raise ConfigError(
            str(path),
            type(error).__name__,
            "a readable stack file with a config: mapping",
            str(error).replace("\n", " "),
        ) from None
    keys = {key.partition(":")[2]: value for key, value in settings.items() if str(key).startswith(f"{PROJECT}:")}
    return parse(keys)


def _from_json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if name not in StackConfig.model_fields:
            return text
        described = StackConfig.model_fields[name].description or ""
        raise ConfigError(
            key_path([name]), json.dumps(text), "a mapping or a list", f"{described} Use `pulumi config set --path`"
        ) from None
