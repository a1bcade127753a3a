"""Reads the config of the projects beside the stacks': from the running program, or from a file of their folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pulumi
from pydantic import ValidationError

from ..rooms import CLOUDS, cloud_room
from .checks.place import check_region
from .errors import ConfigError, from_pydantic, missing, nearest, shown, unknown
from .load import program_values, read_file
from .model import Model

_Home = TypeVar("_Home", bound=Model)


@dataclass(frozen=True)
class HomeProject(Generic[_Home]):
    """A project beside the stacks', which an administrator brings up."""

    name: str
    """The project's name, which its keys begin with."""
    model: type[_Home]
    """Its keys."""
    check: Callable[[_Home, str | None], None]
    """Rules between keys and the stack's region, if it is known; it raises ConfigError."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Keys of earlier versions and what they are called now; files may still have them."""

    def from_program(self) -> _Home:
        """The config of the running program's stack.

        Raises:
            ConfigError: the first thing that is wrong, as one line.
        """
        values = program_values(self.name, self.model, ["cloud", "replica"])
        for old, new in self.renamed.items():
            if old in values:
                pulumi.log.warn(f"{self.name}:{old} is called {self.name}:{new} now. Rename it in the stack file.")
        return self._parsed(values, lambda cloud: pulumi.Config(cloud).get("region"))

    def from_file(self, path: Path) -> _Home:
        """The config in a file of the project's folder.

        Raises:
            ConfigError: the first thing that is wrong, as one line.
        """
        settings = read_file(path)["config"]
        self._check_names(settings)
        start = f"{self.name}:"
        values = {key.removeprefix(start): value for key, value in settings.items() if key.startswith(start)}
        config = self._parsed(values, lambda cloud: settings.get(f"{cloud}:region"))
        for key in cloud_room(config.cloud, "keys").PLACES:  # type: ignore[attr-defined]
            if key not in settings:
                raise missing(key, f"pulumi config set {key} ...")
        return config

    def _parsed(self, values: Mapping[str, Any], region: Callable[[str], str | None]) -> _Home:
        try:
            config = self.model.model_validate(self._with_new_names(values))
            cloud: str = config.cloud  # type: ignore[attr-defined]
            if place := region(cloud):
                check_region(cloud, f"{cloud}:region", place)
            self.check(config, place)
        except ValidationError as error:
            raise self._renamed(from_pydantic(error, self.model)) from None
        except ConfigError as error:
            raise self._renamed(error) from None
        return config

    def _with_new_names(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values by today's keys. The file's value wins over the project's default, which a program gets too."""
        found = dict(values)
        for old, new in self.renamed.items():
            if old not in found:
                continue
            value, default = found.pop(old), self.model.model_fields[new].default
            if found.get(new, default) not in (default, value):
                key = f"tidemill:{old}"
                raise ConfigError(key, shown(value), f"the value of {new}", f"Remove it, {new} takes its place")
            found[new] = value
        return found

    def _check_names(self, settings: Mapping[str, Any]) -> None:
        """Keys of this project or of another program, and no credential."""
        own = [f"{self.name}:{name}" for name in self.model.model_fields]
        credentials = {key for cloud in CLOUDS for key in cloud_room(cloud, "keys").CREDENTIALS}
        for key, value in settings.items():
            of, colon, name = key.partition(":")
            if not colon or (of != self.name and nearest(of, [self.name, "tidemill"])):
                raise unknown(key, f"{self.name}:{name or of}", own)
            if key in credentials and isinstance(value, str):
                text = f"a text of {len(value)} characters (not shown)"
                allowed = "no credential in a stack file, which others read"
                raise ConfigError(
                    key, text, allowed, "Remove it, log in to the cloud instead, and replace the credential"
                )
            if of == self.name and isinstance(value, Mapping) and "secure" in value:
                raise ConfigError(key, "a secret value (not shown)", "plain values", "Set it again without --secret")

    def _renamed(self, error: ConfigError) -> ConfigError:
        """The error with the key as in the project's files."""
        key = error.what.replace("tidemill:", f"{self.name}:", 1)
        return ConfigError(key, error.value, error.allowed, error.fix, sentence=error.sentence)
