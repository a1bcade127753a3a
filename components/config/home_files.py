"""Reads the config of the projects beside the stacks': from the running program, or from a file of their folder."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ..rooms import CLOUDS, cloud_room
from .errors import ConfigError, from_pydantic, missing, nearest, unknown
from .load import program_values, read_file
from .model import Model

_Home = TypeVar("_Home", bound=Model)


def from_program(project: str, model: type[_Home], check: Callable[[_Home], None]) -> _Home:
    """The config of the running program's stack.

    Args:
        check: Rules between keys; it raises ConfigError.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    return _parsed(project, model, check, program_values(project, model, ["cloud"]))


def from_file(path: Path, project: str, model: type[_Home], check: Callable[[_Home], None]) -> _Home:
    """The config in a file of a project's folder.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    settings = read_file(path)["config"]
    _check_names(project, model, settings)
    values = {key.partition(":")[2]: value for key, value in settings.items() if key.startswith(f"{project}:")}
    config = _parsed(project, model, check, values)
    for key in cloud_room(config.cloud, "keys").PLACES:  # type: ignore[attr-defined]
        if key not in settings:
            raise missing(key, f"pulumi config set {key} ...")
    return config


def _parsed(project: str, model: type[_Home], check: Callable[[_Home], None], values: Mapping[str, Any]) -> _Home:
    try:
        config = model.model_validate(dict(values))
        check(config)
    except ValidationError as error:
        raise _renamed(project, from_pydantic(error, model)) from None
    except ConfigError as error:
        raise _renamed(project, error) from None
    return config


def _check_names(project: str, model: type[Model], settings: Mapping[str, Any]) -> None:
    """Keys of this project or of another program, and no credential."""
    own = [f"{project}:{name}" for name in model.model_fields]
    credentials = {key for cloud in CLOUDS for key in cloud_room(cloud, "keys").CREDENTIALS}
    for key, value in settings.items():
        of, colon, name = key.partition(":")
        if not colon or (of != project and nearest(of, [project, "tidemill"])):
            raise unknown(key, f"{project}:{name or of}", own)
        if key in credentials and isinstance(value, str):
            shown = f"a text of {len(value)} characters (not shown)"
            allowed = "no credential in a stack file, which others read"
            raise ConfigError(key, shown, allowed, "Remove it, log in to the cloud instead, and replace the credential")
        if of == project and isinstance(value, Mapping) and "secure" in value:
            raise ConfigError(key, "a secret value (not shown)", "plain values", "Set it again without --secret")


def _renamed(project: str, error: ConfigError) -> ConfigError:
    """The error with the key as in the project's files."""
    key = error.what.replace("tidemill:", f"{project}:", 1)
    return ConfigError(key, error.value, error.allowed, error.fix, sentence=error.sentence)
