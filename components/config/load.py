"""Reads a stack's config from the running Pulumi program or a stack file."""

import copy
import json
import math
import os
import re
import stat
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pulumi.runtime import config as runtime
from pydantic import BaseModel, ValidationError

from tidemill import services

from ..rooms import CLOUDS, DEFAULT, cloud_room, service_room
from .checks import check
from .checks.place import check_place
from .checks.settings import check_settings
from .errors import ConfigError, from_pydantic, missing, refuse_nulls, shown
from .file_system_models import FileSystem
from .mirrors import in_mirrors
from .models import StackConfig
from .queue_models import Queue

PROJECT = "tidemill"
_TEXTS = (
    "team", "environment", "cloud", "certificates", "permission_boundary", "worker_image", "worker_image_arm64",
)  # fmt: skip


_Model = TypeVar("_Model", bound=BaseModel)

if TYPE_CHECKING:
    StackKeys = StackConfig | Mapping[str, Any]
    QueueKeys = Queue | Mapping[str, Any]
    FileSystemKeys = FileSystem | Mapping[str, Any]
else:
    # Pulumi's analyzer of components knows no unions; the package for other languages describes these by the models.
    StackKeys = QueueKeys = FileSystemKeys = Any


def part(model: type[_Model], values: _Model | Mapping[str, Any], *at: str) -> _Model:
    """One object of a stack's config, for a component that is used alone.

    Args:
        values: its keys, or the object itself, which is returned as it is.
        at: where it is in a stack's config, for the error.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    if isinstance(values, model):
        return values
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise from_pydantic(error, model, at) from None


def keys_of(values: BaseModel | Mapping[str, Any]) -> Mapping[str, Any]:
    """The keys that a model was given, or the mapping itself."""
    return values.model_dump(exclude_unset=True) if isinstance(values, BaseModel) else values


def parse(values: StackConfig | Mapping[str, Any]) -> StackConfig:
    """A stack's config from its keys without their ``tidemill:``; one that was parsed is returned as it is.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    if isinstance(values, StackConfig) and values.is_checked:
        return values
    if not isinstance(values, StackConfig | Mapping):
        fix = "Pass StackConfig(team=..., environment=..., queues=...)"
        raise ConfigError("PipelineArgs.config", shown(values), "a StackConfig, or a mapping of its keys", fix)
    config = in_mirrors(part(StackConfig, _filled(keys_of(values))))
    check(config)
    return config.checked()


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """A stack's keys with the defaults that its queues have on its cloud. The models refuse wrong types later."""
    cloud, queues = values.get("cloud", DEFAULT), values.get("queues")
    if cloud not in CLOUDS or not isinstance(queues, Mapping):
        return dict(values)
    return {**values, "queues": {name: _filled_queue(cloud, queue) for name, queue in queues.items()}}


def _filled_queue(cloud: str, queue: Any) -> Any:
    named = queue.get("service") if isinstance(queue, Mapping) else None
    service = services.find(named) if isinstance(named, str) else None
    own = service if service and cloud in service.clouds else services.of_cloud(cloud)
    return service_room(own, "keys").filled(queue)


def from_pulumi() -> StackConfig:
    """The config of the stack that the running program is for.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    values = program_values(PROJECT, StackConfig, _TEXTS)
    refuse_nulls(StackConfig, values)
    config = parse(values)
    given = _given()
    _place(config.cloud, given)
    check_place(config, given.get(f"{config.cloud}:region"), given.get(f"{config.cloud}:project"))
    return config


def _given() -> dict[str, str]:
    # Config() returns only requested keys; the environment has all keys, including unknown ones.
    return {**runtime.get_config_env(), **runtime.CONFIG.get()}


def program_values(project: str, model: type[BaseModel], texts: Sequence[str]) -> dict[str, Any]:
    """All keys of a project in the running program's config, without their `project:`, as plain data.

    Args:
        texts: the keys with text values; all others have JSON.

    Raises:
        ConfigError: a secret, or a value that should be JSON.
    """
    values: dict[str, Any] = {}
    for key, text in _given().items():
        of, _, name = key.partition(":")
        if of != project:
            continue
        if runtime.is_config_secret(key):
            raise ConfigError(
                key,
                "a secret value (not shown)",
                "plain values",
                f"Set it again without --secret; secrets belong into Secrets Manager, their ARNs into {PROJECT}:queues",
            )
        values[name] = text if name in texts else _from_json(model, key, text)
    return values


def _place(cloud: str, given: Mapping[str, str]) -> None:
    for key, (form, allowed, variables) in cloud_room(cloud, "keys").CHECKED.items():
        hint = f"`pulumi config set {key} ...`, or set {variables[0]}"
        value = next(filter(None, [given.get(key), *(os.environ.get(name) for name in variables)]), None)
        if value is None:
            raise missing(key, hint)
        if not re.fullmatch(form, value):
            raise ConfigError(key, json.dumps(value), allowed, hint)


_MERGE = "tag:yaml.org,2002:merge"
_MOST_BYTES, _MOST_VALUES = 1 << 20, 100_000
"""Of a stack file: dozens of times the largest. What reads or prints more would not end in time."""


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """How many values a node has, each alias counted as often as it is used; infinite where one lies within itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        inner = node.value if isinstance(node, yaml.CollectionNode) else []
        pairs = (each if isinstance(each, tuple) else (each,) for each in inner)
        known[id(node)] = 1 + sum(_size(each, known) for pair in pairs for each in pair)
    return known[id(node)]


class _Loader(yaml.SafeLoader):
    """Refuses duplicate keys, as the engine does; plain YAML silently uses the last one. Keys and days are text."""

    def get_single_data(self) -> Any:
        """As the base class, without aliases that no reader could follow."""
        node = self.get_single_node()
        if node is not None and _size(node, {}) > _MOST_VALUES:
            raise yaml.constructor.ConstructorError(None, None, "its aliases lie within themselves, or repeat too much")
        return None if node is None else self.construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As the base class, without duplicate keys."""
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.tag != _MERGE:
                    key.tag = "tag:yaml.org,2002:str"
                if key.value in seen and key.tag != _MERGE:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key `{key.value}` is there twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


# A day that does not exist would end PyYAML with a traceback.
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_str)
# Numbers to the engine, which has YAML 1.2, and text to PyYAML: a cost center 0815 needs quotes.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(0[0-9]*[89][0-9]*|[0-9]+[eE][-+]?[0-9]+)$"), list("-+0123456789")
)


def read_file(path: Path) -> dict[str, Any]:
    """The `config:` of a stack file, with any keys, beside the file's other keys.

    Raises:
        ConfigError: the file does not exist, is not YAML (with the line), or has a duplicate key.
    """
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise _unreadable(path.name, "it is a link, and CI finds what a change affects by the paths of stack files")
        # Opening a pipe or a device may never end.
        if not stat.S_ISREG(found.st_mode):
            raise _unreadable(path.name, "it is no file")
        if found.st_size > _MOST_BYTES:
            raise _unreadable(path.name, f"it has {found.st_size:,} bytes; a stack file has at most {_MOST_BYTES:,}")
        return read_text(path.read_text(encoding="utf-8"), path.name)
    except OSError as error:
        raise _unreadable(path.name, f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _unreadable(path.name, "it is not UTF-8") from None


def read_text(text: str, name: str) -> dict[str, Any]:
    """As `read_file`, of the text of a file of that name."""
    try:
        # Callers change what they get.
        content = copy.deepcopy(_content(text))
    except yaml.MarkedYAMLError as error:
        raise _unreadable(name, _where(error)) from None
    except (yaml.YAMLError, ValueError) as error:
        raise _unreadable(name, " ".join(str(error).split())) from None
    except RecursionError:
        raise _unreadable(name, "it is nested too deeply") from None
    config = content.get("config") or {} if isinstance(content, dict) else None
    if not isinstance(config, dict):
        raise _unreadable(name, "it has no `config:` with a mapping of keys to values")
    return {**content, "config": config}


@lru_cache(maxsize=256)
def _content(text: str) -> Any:
    """The content of a stack file's text. A command reads a file up to eight times, and parsing takes the longest."""
    return yaml.load(text, _Loader) or {}


def _where(error: yaml.MarkedYAMLError) -> str:
    """The problem that the YAML parser reports, with its line. A construct that never ends is named with the line in
    which it begins."""
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    problem = error.problem or error.context or ""
    if mark and begun and error.context and begun.line < mark.line:
        problem = f"{problem}, {error.context} that begins in line {begun.line + 1}"
    if "'\\t'" in problem:
        problem = "a tab; YAML is indented by spaces"
    return f"line {mark.line + 1}: {problem}" if mark else problem


def _unreadable(name: str, why: str) -> ConfigError:
    return ConfigError(name, "the file", "a stack file", "Correct the file", sentence=f": {why}")


def from_file(path: Path) -> StackConfig:
    """The config in a stack file, ``Pulumi.<stack>.yaml``.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    given = read_file(path)["config"]
    check_settings(given)
    settings = {**defaults(path), **given}
    values = {key.partition(":")[2]: value for key, value in settings.items() if key.startswith(f"{PROJECT}:")}
    refuse_nulls(StackConfig, values)
    config = parse(values)
    region, project = (settings.get(f"{config.cloud}:{key}") for key in ("region", "project"))
    # The schema finds values that are not text.
    check_place(config, region if isinstance(region, str) else None, project if isinstance(project, str) else None)
    return config


def defaults(path: Path) -> dict[str, Any]:
    """The values that a project sets for all stacks: defaults in the Pulumi.yaml beside the folder of stack files.

    Args:
        path: A stack file, which need not exist.
    """
    project = (path.absolute().parent.parent / "Pulumi.yaml").resolve()
    declared = read_file(project)["config"] if project.is_file() else {}
    return {key: one["default"] for key, one in declared.items() if isinstance(one, dict) and one.get("default")}


def _from_json(model: type[BaseModel], key: str, text: str) -> Any:
    name = key.partition(":")[2]
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if name not in model.model_fields:
            return text
        described = model.model_fields[name].description or ""
        raise ConfigError(
            key, json.dumps(text), "a mapping or a list", f"{described} Use `pulumi config set --path`"
        ) from None
