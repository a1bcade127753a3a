"""`python -m ops queue add|set|remove`: edits a queue of a stack file in place, checks, shows and applies it."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from ruamel.yaml.comments import CommentedMap

from components.config import ConfigError, StackConfig
from components.config.load import read_text
from components.images import own_repositories
from ops import deploy, stack_files
from ops.clouds import facts
from ops.options import STACK, Commands
from ops.project import read_config, stack_file

_KEY = "tidemill:queues"
_REGISTRY = "tidemill:registry"
_FIRST_IMAGE = "images.default"

_Command = Callable[..., Any]


@click.group(cls=Commands)
def queue() -> None:
    """Add, change or remove a queue of a stack file.

    KEY=VALUE names a key of the queue and a YAML value: item.memory_mib=4096, machines.families=[c7i,c6i],
    capacity[0].max_cpus=512; null removes a key. docs/stack-keys.md lists the keys.

    Prints the change as a diff. Exits 2 if an argument or the result would be wrong, and then leaves the file alone.
    """


def _options(command: _Command) -> _Command:
    for option in (
        click.option("--stack", type=STACK, required=True, help="A stack of stacks/, such as vision-dev."),
        click.option("--dry-run", is_flag=True, help="Print the diff and write nothing."),
        click.option("--up", is_flag=True, help="Bring the stack up on your login, under the policy pack."),
        click.argument("name"),
    ):
        command = option(command)
    return command


@queue.command()
@_options
@click.argument("settings", nargs=-1, metavar="[KEY=VALUE]...")
def add(stack: str, name: str, settings: tuple[str, ...], *, dry_run: bool, up: bool) -> None:
    """Add the queue NAME; requires images.default=IMAGE."""
    pairs = [stack_files.assignment(text) for text in settings]
    if name in read_config(stack).queues:
        raise click.UsageError(f"{name}: the stack {stack} has this queue already; `queue set` changes it.")

    def edit(queues: CommentedMap) -> None:
        if not any(steps[0] == "images" for steps, _ in pairs):
            raise click.UsageError(f"{name}: a queue needs an image, such as {_FIRST_IMAGE}=registry://app:1.0.0")
        queues[name] = CommentedMap()
        _assign(queues[name], pairs)

    _change(stack, name, edit, places=[[_KEY, name]], dry_run=dry_run, up=up)


@queue.command("set")
@_options
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...")
def set_(stack: str, name: str, settings: tuple[str, ...], *, dry_run: bool, up: bool) -> None:
    """Change keys of the queue NAME."""
    pairs = [stack_files.assignment(text) for text in settings]

    _known(stack, name)
    cuts = [[_KEY, name, *steps] for steps, value in pairs if value is None]
    _change(stack, name, lambda queues: _assign(queues[name], pairs), cuts, dry_run=dry_run, up=up)


@queue.command()
@_options
def remove(stack: str, name: str, *, dry_run: bool, up: bool) -> None:
    """Remove the queue NAME; jobs that wait in it are lost."""

    if len(_known(stack, name)) == 1:
        raise click.UsageError(
            f"{name}: this is the last queue of {stack}, and a pipeline needs one. To replace it, add another queue "
            "first; `pulumi destroy` takes the pipeline down."
        )
    note = _protected(stack)
    if note and up:
        raise click.UsageError(f"{name}: {note}")
    _change(stack, name, lambda queues: None, [[_KEY, name]], dry_run=dry_run, up=up)
    if note:
        click.echo(f"Note: {note}")


def _known(stack: str, name: str) -> list[str]:
    """The stack's queues, which include this one."""
    queues = [*read_config(stack).queues]
    if name not in queues:
        raise click.UsageError(f"{name}: the stack {stack} has no such queue. Queues: {', '.join(queues)}.")
    return queues


def _assign(queue_: CommentedMap, pairs: list[tuple[list[str | int], Any]]) -> None:
    for steps, value in pairs:
        if value is not None:
            stack_files.assign(queue_, steps, value)


def _protected(stack: str) -> str | None:
    """The step that must precede the removal of a queue, if the stack file does not allow it yet."""
    config = read_config(stack)
    key, what = facts(config.cloud).REMOVED_WITH
    if config.may_purge or key in config.allow:
        return None
    return (
        f"{what} protected. Before you remove the queue from the file, set tidemill:allow: [{key}] and run `pulumi up` "
        "once; remove the key afterwards."
    )


def _change(
    stack: str,
    name: str,
    edit: Callable[[CommentedMap], None],
    cuts: Sequence[stack_files.Steps] = (),
    *,
    places: Sequence[stack_files.Steps] = (),
    dry_run: bool,
    up: bool,
) -> None:
    """Edit a queue of the stack file, print the diff, write it unless this is a dry run, and apply it on request."""
    path = stack_file(stack).resolve()
    try:
        before, after = stack_files.edited(path, lambda config: edit(config[_KEY]), cuts, places)
        kept = _left(read_config(stack), stack_files.check(path, after))
        if kept:
            key = [] if _REGISTRY in read_text(after, path.name)["config"] else [[_REGISTRY]]
            before, after = stack_files.edited(path, lambda config: _keep(config, kept, edit), cuts, [*places, *key])
            stack_files.check(path, after)
        stack_files.check_others(path, before, after, [[_KEY, name], [_REGISTRY]])
        if not dry_run:
            stack_files.write(path, before, after)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    click.echo(
        stack_files.diff(path, before, after) or f"stacks/{path.name} is unchanged: it has these values already."
    )
    if kept:
        click.echo(
            f"\nNo image uses the repository {' or '.join(kept)} any more. {_REGISTRY}.repositories keeps it with its "
            "images. To delete it, set tidemill:allow: [purge], run `pulumi up`, and remove the name from the list."
        )
    if up and not dry_run:
        sys.exit(deploy.up(stack))
    else:
        click.echo(f"\nNext: make review STACK={stack}, or on your login: pulumi preview --stack {stack}")


def _left(before: StackConfig, after: StackConfig) -> list[str]:
    """Repositories that only an image named: without it their protection would stop `up`."""
    if not facts(before.cloud).REPOSITORY_PER_IMAGE:
        return []
    return sorted(set(own_repositories(before)) - set(own_repositories(after)))


def _keep(config: CommentedMap, repositories: list[str], edit: Callable[[CommentedMap], None]) -> None:
    """The edit, with repositories added to the file."""
    edit(config[_KEY])
    for name in repositories:
        listed = (config.get(_REGISTRY) or {}).get("repositories")
        if listed:
            stack_files.assign(config, [_REGISTRY, "repositories", len(listed)], name)
        else:
            stack_files.assign(config, [_REGISTRY, "repositories"], [name])
