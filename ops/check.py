"""`python -m ops check`: whether stack files are right, without an engine and without a cloud."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from components.config import ConfigError, from_file
from components.config.load import read_file
from components.schema import schema
from ops import project

WRONG = 2


@click.command()
@click.argument("stacks", nargs=-1, metavar="[STACK]...")
def check(stacks: tuple[str, ...]) -> None:
    """Check the named stack files of stacks/, or all of them: schema, rules between keys, and no pipeline twice.

    Exits 2 after one line for each file that is wrong. It does not ask a cloud, so that it cannot know whether what a
    file names is there.
    """
    paths = [project.stack_file(stack) for stack in stacks] or sorted(project.STACKS.glob("Pulumi.*.yaml"))
    found = problems(paths)
    for line in found:
        click.echo(line, err=True)
    if found:
        sys.exit(WRONG)
    click.echo(f"{len(paths)} stack files are right." if len(paths) > 1 else f"{paths[0].name} is right.")


def problems(paths: Sequence[Path]) -> list[str]:
    """One line for each of the files that is wrong."""
    found = {path: line for path in paths if (line := _problem(path)) is not None}
    right = [path for path in paths if path not in found]
    return [f"{path.name}: {line}" for path, line in {**found, **_twice(right)}.items()]


def _problem(path: Path) -> str | None:
    try:
        from_file(path)
    except ConfigError as error:
        return str(error)
    # The models and their rules have the better words; the schema knows the clouds' own keys too.
    content = json.loads(json.dumps(read_file(path), default=str))
    validator = Draft202012Validator(schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)
    error = best_match(validator.iter_errors(content))
    if error is None:
        return None
    where = ".".join(str(part) for part in list(error.absolute_path)[1:])
    return f"{where or 'config'}: {error.message}. stacks/schema.json says what is allowed."


def _twice(paths: Iterable[Path]) -> dict[Path, str]:
    """Stacks that would make one pipeline twice: their registries, which are not named automatically, collide."""
    seen: dict[tuple[Any, ...], Path] = {}
    found = {}
    for path in paths:
        keys = read_file(path)["config"]
        cloud = keys.get("tidemill:cloud", "aws")
        place = (cloud, keys.get(f"{cloud}:region"), keys.get("gcp:project") if cloud == "gcp" else None)
        name = f"{keys['tidemill:team']}-{keys['tidemill:environment']}"
        other = seen.setdefault((*place, name), path)
        if other != path:
            found[path] = (
                f"tidemill:team: the pipeline {name} in {place[1]} is {other.name} already. Allowed: a team and "
                "environment once a region. Rename one of them, or remove the file."
            )
    return found
