"""`python -m ops check`: validates stack files without an engine or a cloud."""

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path
from typing import Any

import click
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from components.config import ConfigError, NewNetwork, StackConfig, from_file
from components.config.errors import key_path, nearest, shown, unknown
from components.config.load import read_file
from components.config.ranges import derived
from components.images import unused_mirror
from components.schema import schema
from ops import project
from ops.clouds import facts
from ops.options import STACK
from ops.provider_settings import misspelled
from ops.required_tags import lacking

WRONG = 2
_NO_ENVIRONMENTS = {"account", "default", "shared"}
"""Files of the policy pack's configs that are for other projects, or for environments without one."""
_EXAMPLES = {"aws:region": "us-west-2", "gcp:region": "us-central1", "gcp:project": "vision-dev"}


@click.command()
@click.argument("stacks", nargs=-1, type=STACK, metavar="[STACK]...")
@click.option("--stack", "more", type=STACK, multiple=True, help="The same as STACK, as other commands have it.")
def check(stacks: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Check the named stack files, or all of stacks/, bootstrap/ and shared/.

    Checks the schema, rules between keys, names, waivers and duplicate pipelines.

    Prints one line per invalid file and then exits 2; networks that overlap, and mirrors without
    an image, are warnings. It asks no cloud, so it
    cannot know whether the resources that a file names exist.
    """
    every = project.every_file()
    paths = [project.stack_file(stack) for stack in dict.fromkeys((*stacks, *more))] or every
    faults = problems(paths, [path for path in every if path not in paths])
    for line in faults:
        click.echo(line, err=True)
    if faults:
        sys.exit(WRONG)
    for line in [*overlaps(paths, [path for path in every if path not in paths]), *idle_mirrors(paths)]:
        click.echo(line, err=True)
    click.echo(f"All {len(paths)} stack files are valid." if len(paths) > 1 else f"{paths[0].name} is valid.")


def problems(paths: Sequence[Path], others: Sequence[Path] = ()) -> list[str]:
    """One line per invalid file.

    Args:
        others: Files that may describe the same pipeline as one of them; their own errors are not reported.
    """
    homes = {path: _of_home(path, project.named(path)) for path in paths if project.home_of(project.named(path))}
    paths, others = ([path for path in each if path not in homes] for each in (paths, others))
    others = [path for path in others if not project.home_of(project.named(path))]
    twice = {path: line for path, line in _twice([*others, *paths]).items() if path in paths}
    environments = _environments([*others, *paths])
    faults = {path: _problem(path) or _crossing(path, environments) or twice.get(path) for path in paths}
    faults |= homes
    # Some errors begin with the file's name themselves.
    return [project.told(path, line) for path, line in faults.items() if line]


def overlaps(paths: Sequence[Path], others: Sequence[Path] = ()) -> list[str]:
    """One line per pair of stacks whose new networks have addresses in common, which only matters once they are joined.

    A network that is older than its file's `cidr`, or whose range comes from a pool, may have another range: no file
    tells.
    """
    ranges = {path: found for path in [*others, *paths] if (found := _range(path))}
    return [
        f"{path.name}: warning: tidemill:network.create.cidr: {ranges[path]} overlaps {ranges[other]} of {other.name}. "
        "Networks with addresses in common cannot be peered or attached to one transit gateway. Set `cidr` in the one "
        "that is not deployed yet."
        for other, path in combinations(ranges, 2)
        if (path in paths or other in paths) and ranges[path].overlaps(ranges[other])
    ]


def idle_mirrors(paths: Iterable[Path]) -> list[str]:
    """One line per mirror of a stack's own file that none of its images is in, such as for a misspelt host."""
    lines = []
    for path in paths:
        if project.home_of(project.named(path)):
            continue
        config = from_file(path)
        for host in read_file(path)["config"].get("tidemill:mirrors") or {}:
            if why := unused_mirror(config, host):
                lines.append(f"{path.name}: warning: {key_path(['mirrors', host])}: {why}")
    return lines


def _range(path: Path) -> IPv4Network | None:
    """The range that a stack's new network gets; None if no file tells it."""
    try:
        config, keys = from_file(path), read_file(path)["config"]
    except ConfigError:
        return None
    if config.network.existing or config.network.shared:
        return None
    new = config.network.create or NewNetwork()
    region = keys.get(f"{config.cloud}:region")
    if new.ipam_pool or not (new.cidr or region):
        return None
    return IPv4Network(new.cidr or derived(f"{config.team}-{config.environment}-network", str(region)))


def _of_home(path: Path, stack: str) -> str | None:
    """The fault of a file of bootstrap/ or shared/; None if it is valid."""
    try:
        project.of_file(path, stack)
    except ConfigError as error:
        return str(error)
    own = project.project_name(stack)
    wrong = misspelled(key for key in map(str, read_file(path)["config"]) if not key.startswith(f"{own}:"))
    return str(wrong) if wrong else None


def _problem(path: Path) -> str | None:
    try:
        config = from_file(path)
    except ConfigError as error:
        return str(error)
    wrong = misspelled(str(key) for key in read_file(path)["config"])
    if wrong:
        return str(wrong)
    return _against_schema(path) or _misnamed(path, config) or _unknown_rule(config) or lacking(config)


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(schema(), format_checker=Draft202012Validator.FORMAT_CHECKER)


def _against_schema(path: Path) -> str | None:
    """The models and their rules have better messages; the schema also knows the clouds' own keys."""
    content = json.loads(json.dumps(read_file(path), default=str))
    error = best_match(_validator().iter_errors(content))
    if error is None:
        return None
    if error.validator == "required":
        (key, *_) = [key for key in error.validator_value if key not in error.instance]
        example = f", such as {_EXAMPLES[key]}" if key in _EXAMPLES else ""
        return f"{key} is missing; it is required{example}."
    where = ".".join(str(part) for part in list(error.absolute_path)[1:])
    if where in _EXAMPLES:
        return str(ConfigError(where, shown(error.instance), f"one such as {_EXAMPLES[where]}", "Correct it"))
    return str(_of_schema(error))


def _of_schema(error: ValidationError) -> ConfigError:
    """The error of a provider's key, in the form that other keys have."""
    path = list(error.absolute_path)[1:]
    rules: Any = error.schema
    value: Any = error.instance
    fix = rules.get("description", "stacks/schema.json says what is allowed")
    if error.validator == "additionalProperties":
        known = [*rules["properties"]]
        name = next(each for each in value if each not in known)
        return unknown(_named([*path, name]), name, known)
    words = {"type": _types(error.validator_value), "pattern": f"text that matches {error.validator_value}"}
    return ConfigError(_named(path), shown(value), words.get(str(error.validator), error.message), fix)


def _named(path: Sequence[str | int]) -> str:
    """``["aws:assumeRoles", 0, "roleArn"]`` → ``aws:assumeRoles[0].roleArn``."""
    key, *parts = path or ["config"]
    rest = key_path(parts, "")
    return f"{key}.{rest}" if rest and not rest.startswith("[") else f"{key}{rest}"


def _types(types: Any) -> str:
    """The JSON types that a schema allows, in words; each of these values may also be given as JSON in a text."""
    (first, *_) = [types] if isinstance(types, str) else [each for each in types if each != "string"] or types
    return {"array": "a list", "object": "a mapping of keys to values", "string": "a text"}.get(first, first)


def _misnamed(path: Path, config: StackConfig) -> str | None:
    """A file is named after its team and environment, so that the right reviewers see a change to it."""
    stack = path.stem.removeprefix("Pulumi.")
    fix = f"Rename the file to Pulumi.{config.team}-{config.environment}.yaml, or correct the "
    if stack != config.team and not stack.startswith(f"{config.team}-"):
        allowed = "the team that the file's name begins with"
        return str(ConfigError("tidemill:team", f'"{config.team}"', allowed, f"{fix}team"))
    rest = f"{stack.removeprefix(config.team)}-"
    own = {path.stem for path in (project.POLICY / "environments").glob("*.json")} - _NO_ENVIRONMENTS
    named = sorted(each for each in own if f"-{each}-" in rest)
    if named and config.environment not in named:
        allowed = f"{named[0]}, which the file's name has after the team"
        return str(ConfigError("tidemill:environment", f'"{config.environment}"', allowed, f"{fix}environment"))
    return None


def _unknown_rule(config: StackConfig) -> str | None:
    rules = [path.stem.replace("_", "-") for path in (project.POLICY / "rules").glob("*_*.py")]
    for index, waiver in enumerate(config.waivers):
        if waiver.rule not in rules:
            guess = nearest(waiver.rule, rules)
            hint = f"Did you mean {guess}?" if guess else "Remove the waiver."
            key = f"tidemill:waivers[{index}].rule"
            return str(ConfigError(key, f'"{waiver.rule}"', "a rule of docs/policies.md", hint))
    return None


def _twice(paths: Iterable[Path]) -> dict[Path, str]:
    """Stacks that would make the same pipeline twice: their registries, which get no generated names, collide."""
    seen: dict[tuple[Any, ...], Path] = {}
    faults = {}
    for path in paths:
        try:
            config, keys = from_file(path), read_file(path)["config"]
        except ConfigError:
            continue
        cloud = config.cloud
        place = (cloud, keys.get(f"{cloud}:region"), keys.get(f"{cloud}:project"))
        name = f"{config.team}-{config.environment}"
        other = seen.setdefault((*place, name), path)
        if other != path:
            faults[path] = (
                f"tidemill:team: the pipeline {name} in {place[1]} is {other.name} already. Allowed: each team and "
                "environment once per region. Rename one of them, or remove the file."
            )
    return faults


def _crossing(path: Path, environments: set[str]) -> str | None:
    """Names of a stack that contain another environment, where permissions match names by patterns."""
    config = from_file(path)
    if not facts(config.cloud).NAMES_ARE_PATTERNS:
        return None
    # A name with only the team begins with it.
    named = {"team": f"{config.team}-{config.environment}-"}
    for queue, settings in config.queues.items():
        named |= {f"queues.{queue}": f"-{queue}-"}
        named |= {f"queues.{queue}.images.{image}": f"-{image}-" for image in settings.images}
    for key, name in named.items():
        for other in sorted(environments - {config.environment}):
            if f"-{other}-" in name:
                why = f"an environment of these stacks: the permissions of {other} are for names that contain it"
                shown = f'"{name.strip("-")}"'
                return str(ConfigError(f"tidemill:{key}", shown, f"a name without -{other}-, {why}", "Rename it"))
    return None


def _environments(paths: Iterable[Path]) -> set[str]:
    """The environments of stacks whose names are matched by patterns; an invalid file has none."""
    names = set()
    for path in paths:
        with contextlib.suppress(ConfigError):
            config = from_file(path)
            names |= {config.environment} if facts(config.cloud).NAMES_ARE_PATTERNS else set()
    return names
