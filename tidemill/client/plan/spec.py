"""A job's spec from a caller's values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tidemill import secrecy
from tidemill.errors import CallerError
from tidemill.job import NAME_PATTERN, JobSpec, new_job_id
from tidemill.request import OPTIONS, Option

_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def build_spec(**values: Any) -> JobSpec:
    """A spec from a caller's values of its fields. ``job`` is made from ``name`` when it is not given.

    Raises:
        CallerError: One mistake: which key, its value, what is allowed, what to do.
    """
    if "job" not in values and re.match(NAME_PATTERN, str(values.get("name", ""))):
        values = {**values, "job": new_job_id(values["name"])}
    _check_words(values.get("command"))
    _check_env(values.get("env"))
    _check_index(values.get("pip_index"))
    try:
        return JobSpec.model_validate(values)
    except ValidationError as error:
        raise _caller_error(error, values) from None


def _caller_error(error: ValidationError, values: Mapping[str, Any]) -> CallerError:
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    if not path:
        given = [name for name in ("command", "function") if values.get(name) is not None]
        fix = "Give a command, or a function."
        return CallerError.about("command or function", given, "exactly one of the two", fix)
    if first["type"] == "missing" and "name" in values and path == ["job"]:
        path = ["name"]
    key = ".".join(path[:2]) if ".".join(path[:2]) in OPTIONS else path[0]
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    option = OPTIONS.get(key, Option())
    return CallerError.about(key, value, option.must or _whole(key) or first["msg"], option.fix or "Correct it.")


def _whole(key: str) -> str:
    """The phrase for a whole number between two bounds; empty for other fields."""
    bounds = {type(one).__name__: one for one in JobSpec.model_fields[key].metadata}
    return f"a whole number from {bounds['Ge'].ge} to {bounds['Le'].le}" if {"Ge", "Le"} <= {*bounds} else ""


def _refused(key: str, value: object, part: str = "") -> CallerError:
    return CallerError.about(part or key, value, OPTIONS[key].must, OPTIONS[key].fix)


def _check_words(command: Any) -> None:
    if command is None:
        return
    wrong = not isinstance(command, (list, tuple)) or not command or not command[0]
    if wrong or any(not isinstance(word, str) or "\0" in word for word in command):
        raise _refused("command", command)


def _check_env(env: Any) -> None:
    if env is None:
        return
    if not isinstance(env, Mapping):
        raise _refused("env", env)
    for name, value in env.items():
        if not isinstance(name, str) or not _ENV_NAME.match(name) or not isinstance(value, str) or "\0" in value:
            raise _refused("env", value, f"env.{name}")
        if name.startswith(("TIDEMILL_", "AWS_BATCH_")):
            problem = f"env.{name}: names that begin with TIDEMILL_ or AWS_BATCH_ are reserved."
            raise CallerError(problem, "Rename it.", what=f"env.{name}")
        if secrecy.NAME.search(name) or secrecy.VALUE.search(value):
            raise CallerError(
                f"env.{name} looks like a secret, and a job's environment is stored in clear text.", secrecy.INSTEAD
            )


def _check_index(address: Any) -> None:
    if isinstance(address, str) and "@" in address.partition("://")[2].partition("/")[0]:
        raise CallerError(
            "pip_index holds a login, and a job's settings are stored in clear text.",
            "Use an index that needs none, or a wheelhouse in the store.",
        )
