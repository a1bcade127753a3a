"""`python -m ops affected`: the stacks that a change can affect, so that CI previews those and no others."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import click

from components.config import ConfigError
from components.config.load import read_file, read_text
from components.rooms import CLOUDS, DEFAULT
from ops import git
from ops.ci import logins
from ops.imports import closure
from ops.project import POLICY, ROOT, STACKS, every_file, home_of, named, of_file, project_name, stack_file, told
from ops.review.document import Base
from tidemill import services

ALL, NONE, IMPORTERS = "all", "none", "importers"


def _rooms(cloud: str) -> tuple[str, ...]:
    """Folders of a cloud and of the service of its queues."""
    service = services.of_cloud(cloud).name
    return f"components/{cloud}/", f"components/services/{service}/"


def _of_clouds() -> Iterator[tuple[str, str]]:
    for cloud in CLOUDS:
        own = (f"tidemill/machines/data/{cloud}.json", f"tidemill/prices/data/{cloud}/")
        yield from ((path, cloud) for path in (*_rooms(cloud), *own))


RULES = (
    ("stacks/", NONE),  # stack files are looked at first; the rest is for editors
    *_of_clouds(),
    ("tidemill/prices/data/own.json", ALL),
    ("components/", ALL),
    ("policy/", ALL),
    # A stack's program reads some of it; the rest is the client and the worker, whose image a stack names by digest.
    ("tidemill/", IMPORTERS),
    ("__main__.py", ALL),
    ("Pulumi.yaml", ALL),
    ("pyproject.toml", ALL),
    ("requirements.txt", ALL),
    # Projects of their own, whose stacks their own imports affect.
    ("bootstrap/", NONE),
    ("plugin/", NONE),
    ("shared/", NONE),
    # Paths that no stack's program reads.
    (".ci/", NONE),
    (".github/", NONE),
    (".gitignore", NONE),
    ("benchmarks/", NONE),
    ("CHANGELOG.md", NONE),
    ("CONTRIBUTING.md", NONE),
    ("docs/", NONE),
    ("examples/", NONE),
    ("LICENSE", NONE),
    ("localcloud/", NONE),
    ("Makefile", NONE),
    ("ops/", NONE),
    ("README.md", NONE),
    # Parts of requirements.txt for a first try; CI installs the whole.
    ("requirements-aws.txt", NONE),
    ("requirements-gcp.txt", NONE),
    ("tests/", NONE),
    ("worker_image/", NONE),
)
"""Path prefixes and whose stacks a change there can affect; the first match decides. A path without a row affects
all stacks: an extra preview costs a minute, a missing one hides a replacement. A test requires a row for every
tracked file. `importers` are the stacks whose program or policy pack imports the file."""

_STACK_FILE = re.compile(r"(?P<folder>stacks|bootstrap|shared)/Pulumi\.(?P<stack>[^/]+)\.yaml")
_PACKAGES = ("pyproject.toml", "requirements.txt")


@dataclass(frozen=True)
class Stack:
    """A stack of stacks/, bootstrap/ or shared/, and what CI needs to know about it."""

    stack: str
    cloud: str
    environment: str
    """Empty for a stack of bootstrap/ or shared/, which an administrator brings up: CI previews it and checks it for
    drift, but does not deploy it."""
    region: str
    """The region in the stack file; empty if the file has none."""
    home: str
    """The variable with the login to its account or project: ``TIDEMILL_STACK_VISION_PROD`` if it is set, else
    ``TIDEMILL_AWS_PROD``."""
    login: Mapping[str, str] | None = None
    """``backend_url``, ``provider`` and the identities ``preview`` and ``deploy``; None if the variable is not set."""
    removed: bool = False
    """Whether the change removes or renames its file: its resources stay, and nothing manages them any more."""

    @property
    def homes(self) -> tuple[str, ...]:
        """The variables that may hold its login, the first that is set counts."""
        return logins.names(self.stack, self.cloud, self.environment or None)


@click.command()
@click.option("--base", help="A commit, branch or tag: list what changed since HEAD branched off. Or --all.")
@click.option("--all", "everything", is_flag=True, help="Every stack, whatever changed.")
@click.option("--environment", help="Only stacks of this environment.")
@click.option("--with-login", is_flag=True, help="Only stacks whose login is known.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, with all that CI needs of each stack.")
def affected(base: str | None, everything: bool, environment: str | None, with_login: bool, as_json: bool) -> None:
    """List the stacks that a change can affect, based on the paths of the changed files. Edits that are not committed
    count.

    A stack whose file the change removes or renames is listed too: its resources stay in the cloud.

    A login is the output `ci` of the bootstrap stack in the stack's account or project (`pulumi stack output ci
    --json`), in the variable TIDEMILL_STACK_<STACK>, or in TIDEMILL_<CLOUD>_<ENVIRONMENT> for all other stacks of an
    environment. CI_VARIABLES may hold the variables as a JSON object; without it the environment's count.

    Exits 2 if an argument, a stack file or one of those variables is wrong, or if a login is to another account or
    project than the stack's file names.
    """
    if everything == bool(base):
        raise click.UsageError("pass either --base REF or --all.")
    variables = logins.variables()
    begun = git.base(base) if base else None
    every = {**stacks(), **(removed(begun) if begun else {})}
    logins.refuse_shared(((name, stack.homes[0]) for name, stack in every.items()), variables)
    environments = sorted({stack.environment for stack in every.values()} - {""})
    if environment is not None and environment not in environments:
        raise click.UsageError(f"--environment {environment}: no stack is of it; there are {', '.join(environments)}.")
    wanted = {name: _with_login(stack, variables) for name, stack in every.items()}
    reasons = dict.fromkeys(wanted, "--all") if begun is None else why(git.changed(begun.commit), wanted.values())
    listed = [wanted[name] for name in sorted(reasons) if environment in (None, wanted[name].environment)]
    if with_login:
        for line in logins.unread(variables, [name for stack in every.values() for name in stack.homes]):
            click.echo(line, err=True)
        for stack in listed:
            if stack.login is None:
                click.echo(f"{stack.stack}: no login: {' and '.join(stack.homes)} are not set (docs/ci.md).", err=True)
        listed = [stack for stack in listed if stack.login]
    if as_json:
        click.echo(json.dumps([asdict(stack) for stack in listed]))
        return
    for stack in listed:
        click.echo(f"{stack.stack}\t{reasons[stack.stack]}{' is removed' if stack.removed else ''}")
    if not listed:
        # Not on stdout, which a script reads stacks from.
        click.echo("No stack is affected.", err=True)


def _with_login(stack: Stack, given: Mapping[str, Any]) -> Stack:
    name = next((name for name in stack.homes if given.get(name)), None)
    if name is None:
        return stack
    login = logins.read(name, given[name], stack.environment or None)
    if not stack.removed:
        logins.refuse_elsewhere(stack.stack, stack.cloud, name, login, read_file(stack_file(stack.stack))["config"])
    return replace(stack, home=name, login=login)


def stacks(folder: Path = STACKS) -> dict[str, Stack]:
    """The stacks of a folder and of the projects beside it, by name.

    Raises:
        click.UsageError: A stack file is wrong.
    """
    by_name = {}
    for path in every_file(folder):
        name = named(path, folder)
        try:
            config = of_file(path, name)
        except ConfigError as error:
            raise click.UsageError(told(path, error)) from None
        region = read_file(path)["config"].get(f"{config.cloud}:region", "")
        by_name[name] = _stack(name, config.cloud, getattr(config, "environment", ""), region)
    return by_name


def removed(base: Base) -> dict[str, Stack]:
    """The stacks whose files a commit has and this checkout has not, by name."""
    gone = {}
    for path in git.changed(base.commit):
        own = _STACK_FILE.fullmatch(path)
        if own and not (ROOT / path).exists() and (text := git.content(base.commit, path)) is not None:
            gone[_named(own)] = _as_it_was(_named(own), text)
    return gone


def _named(own: re.Match[str]) -> str:
    """The stack of a path."""
    return own["stack"] if own["folder"] == "stacks" else f"{own['folder']}/{own['stack']}"


def _as_it_was(name: str, text: str) -> Stack:
    """A stack by the text of its file, which may be wrong: nothing reads it any more."""
    try:
        keys = read_text(text, name)["config"]
        own = project_name(name)
        cloud, environment = keys.get(f"{own}:cloud", DEFAULT), keys.get("tidemill:environment", "")
        return replace(_stack(name, cloud, environment, keys.get(f"{cloud}:region", "")), removed=True)
    except (ConfigError, KeyError, TypeError):
        return replace(_stack(name, DEFAULT, "", ""), removed=True)


def _stack(name: str, cloud: str, environment: str, region: str) -> Stack:
    return Stack(name, cloud, environment, region, logins.names(name, cloud, environment or None)[-1])


def why(paths: Iterable[str], candidates: Iterable[Stack]) -> dict[str, str]:
    """The stacks that changed files can affect, each with the first path that does.

    Nothing affects a removed stack but the removal of its file.
    """
    listed = list(candidates)
    homes = {stack.stack: _of_home(stack) for stack in listed if home_of(stack.stack)}
    reasons: dict[str, str] = {}
    for path in paths:
        own, whose = _STACK_FILE.fullmatch(path), scope(path)
        for stack in listed:
            reached = path in homes[stack.stack] if stack.stack in homes else whose in (ALL, stack.cloud)
            if stack.stack == _named(own) if own else reached and not stack.removed:
                reasons.setdefault(stack.stack, path)
    return reasons


def scope(path: str) -> str:
    """Whose stacks a path can affect, stack files aside: `all`, those of a cloud, or `none`."""
    whose = next(
        (whose for start, whose in RULES if path == start or (start[-1] == "/" and path.startswith(start))), ALL
    )
    if whose != IMPORTERS:
        return whose
    reached = [cloud for cloud in CLOUDS if path in _imported(cloud)]
    return ALL if len(reached) == len(CLOUDS) else "".join(reached) or NONE


def _of_home(stack: Stack) -> frozenset[str]:
    """The files that the program of a stack of bootstrap/ or shared/ reads, and the policy pack's."""
    home = home_of(stack.stack)
    policies = (path.relative_to(ROOT).as_posix() for path in POLICY.rglob("*") if path.is_file())
    starts = [f"{home}/__main__.py", f"{home}/{stack.cloud}.py", f"components/{stack.cloud}/checks.py"]
    others = tuple(room for other in CLOUDS if other != stack.cloud for room in _rooms(other))
    return closure(starts, others).union((f"{home}/Pulumi.yaml", *_PACKAGES, *policies))


@cache
def _imported(cloud: str) -> frozenset[str]:
    """The files that a cloud's program and its policy pack import; those of a room are imported by computed names."""
    service = services.of_cloud(cloud).name
    records = (f"tidemill/clouds/{cloud}/__init__.py", f"tidemill/services/{service}/__init__.py")
    rooms = (POLICY, *(ROOT / room for room in _rooms(cloud)))
    files = (path.relative_to(ROOT).as_posix() for room in rooms for path in room.rglob("*.py"))
    others = tuple(room for other in CLOUDS if other != cloud for room in _rooms(other))
    return closure(["__main__.py", *records, *files], others)
