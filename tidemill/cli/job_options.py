"""Options that `submit` and `run` share: a program, its items, and more."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import click

from tidemill.cli.kinds import Duration, Size
from tidemill.cli.options import as_typed, complete_secret, flags_of
from tidemill.request import OPTIONS, STATE, UNITS, JobRequest

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FUNCTION = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"


class ProgramAfterDashes(click.Command):
    """Everything after the first `--` belongs to the program; none of it is an option of ours."""

    takes_program = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.obj = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)


_HOW = (
    *("attempts", "output", "env", "secrets", "max_parallel", "inputs", "code", "libs", "tags", "metrics", "pip_index"),
    *("wheelhouse", "notify", "after", "after_success", "max_usd", "usd_per_item_hour"),
)
_OF_STATE = tuple(f"state.{name}" for name in STATE)
_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "state.max_gib": float,
    "state.notice_signal": click.Choice(["TERM", "USR1", "none"]),
    "state.snapshot_seconds": Duration(1),
}
"""By keyword, or by its kind in Python."""


class Flag(click.Option):
    """An option whose earlier spelling still works, and is not shown."""

    def __init__(self, names: Sequence[str], *, old: str = "", **settings: Any) -> None:
        super().__init__(names, **settings)
        self._old = [old] if old else []

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, *self._old]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def options(*keywords: str, **help_texts: str) -> Decorator:
    """Add the flags of these keywords of a request to a command, some with other help texts."""
    return _all([option(keyword, help_texts.get(keyword)) for keyword in keywords])


def option(keyword: str, help_text: str | None = None, **changes: Any) -> Decorator:
    """The flag of one keyword of a request. Its type is the keyword's, and a number with a unit is typed with it."""
    about, kind = OPTIONS[keyword], JobRequest.__annotations__.get(keyword, "").removesuffix(" | None")
    given: dict[str, Any] = {"help": help_text or about.help, "metavar": about.metavar or None}
    if keyword.endswith(UNITS):
        given |= {"type": _TYPES.get(keyword) or (Size() if keyword.endswith("_mib") else Duration())}
    elif kind.startswith("bool"):
        given |= {"is_flag": True}
    elif kind.startswith(("Mapping", "Sequence")):
        given |= {"multiple": True}
    else:
        given |= {"type": _TYPES.get(keyword) or _TYPES.get(kind)}
    if keyword == "secrets":
        given |= {"shell_complete": complete_secret}
    if about.default:
        given |= {"default": about.default, "show_default": True}
    names = (*about.flags(keyword), keyword.replace(".", "_"))
    return click.option(*names, cls=Flag, old=about.old, **given | changes)


def _all(added: Sequence[Decorator]) -> Decorator:
    return lambda function: reduce(lambda wrapped, add: add(wrapped), reversed(added), function)


_SHELL = click.option(
    "--shell", is_flag=True, help='PROGRAM is one text that /bin/sh reads, with variables such as "$TIDEMILL_INPUT".'
)
_NO_STATE = click.option("--no-state", is_flag=True, help="Keep nothing: an item whose machine goes begins anew.")

item_lists = options("items_format", "items_column")
place = options("queue", "cpus", "memory_mib", "gpus")
"""Adds the queue and what an item needs of it."""
place_of_job = _all([place, options("market", "memory_max_mib", "start_within_seconds")])
"""Adds what a job may ask of a queue besides, too."""
program = _all([options("name", "function"), _SHELL])
"""Adds the program alone."""
what_runs = _all(
    [
        click.argument("uris", nargs=-1, metavar="[URI]... -- PROGRAM [ARGUMENT]..."),
        *(option(keyword) for keyword in ("name", "items", "items_format", "items_column", "function")),
        _SHELL,
    ]
)
"""Adds the items and the program. The options of one command come after it, then `how_it_runs`."""
how_it_runs = options("chunk_size", "item_seconds", "longest_first", "timeout_seconds", *_HOW, "state", *_OF_STATE)
"""Adds chunks, limits, outputs and code."""
how_it_trains = _all(
    [
        option("item_seconds"),
        option("timeout_seconds", "Limit of an attempt: 90s, 2h. Default: 7d; with --no-state 1d."),
        options(*_HOW),
        _NO_STATE,
        options(*_OF_STATE),
    ]
)
"""The same without chunks, for items with state."""


def arguments_of(ctx: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Turn options into keyword arguments of `Pipeline.submit`. The context holds the program, where there is one.

    Raises:
        UsageError: Two of them contradict each other.
    """
    asked = dict(given)
    uris = asked.pop("uris")
    if asked["items"] is not None and uris:
        raise click.UsageError(_too_many(asked["items"], uris, no_dashes=ctx.obj is None))
    if asked["items"] is None:
        asked["items"] = list(uris)
    return with_program(ctx, asked)


def with_program(ctx: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The same of what does not depend on items.

    Raises:
        UsageError: Two options contradict each other.
    """
    asked = dict(given)
    command, asked["function"] = _program(ctx.obj or (), asked.pop("shell"), asked["function"])
    for keyword in ("tags", "inputs", "metrics", "env"):
        asked[keyword] = pairs(keyword, asked[keyword])
    asked["state"] = _state(asked)
    return asked | {"command": command, "log": remarks(ctx.command)}


def _state(asked: dict[str, Any]) -> dict[str, Any] | bool:
    """Take the options of state out of `asked`, as the argument `state`."""
    wanted = asked.pop("state") if "state" in asked else not asked.pop("no_state") and asked["function"] is None
    given = {name: value for name in STATE if (value := asked.pop(f"state_{name}")) is not None}
    if given and not wanted:
        flag = min(OPTIONS[f"state.{name}"].flags(f"state.{name}")[0] for name in given)
        raise click.UsageError(f"{flag} goes with items that have state.")
    return given if wanted else False


def remarks(command: click.Command) -> Callable[[str], None]:
    """Show remarks of the SDK, with the flags of the command."""
    return lambda text: click.echo(as_typed(text, flags_of(command)), err=True)


def rehearsed(asked: dict[str, Any], reclaim_seconds: float | None) -> dict[str, Any]:
    """The same for a rehearsal: state is saved several times before a worker is stopped, unless that was typed."""
    if not reclaim_seconds or asked["state"] is False:
        return asked
    often = max(1.0, min(60.0, reclaim_seconds / 5))
    return asked | {"state": {"snapshot_seconds": often} | asked["state"]}


def _too_many(items: str, uris: Sequence[str], no_dashes: bool) -> str:
    """Why more words follow than `--items` takes: a program without `--`, or a pattern that a shell expanded."""
    if no_dashes:
        return f"Put `--` before the program: --items {items} -- {' '.join(uris)}"
    if len(uris) > 1 or os.path.exists(uris[0]):
        pattern = os.path.join(os.path.dirname(items), f"*{os.path.splitext(items)[1]}")
        return f"--items takes one source, and {len(uris)} more words follow. Quote a pattern: --items '{pattern}'"
    return f"--items is {items!r} and the URI {uris[0]!r} is given too. Give one of the two."


def _program(words: tuple[str, ...], shell: bool, function: str | None) -> tuple[list[str] | None, str | None]:
    if function is not None:
        if words or shell:
            raise click.UsageError(f"--function is {function!r} and a program is given too; give one of the two.")
        return None, function
    if not shell:
        is_function = len(words) == 1 and re.fullmatch(FUNCTION, words[0])
        return (None, words[0]) if is_function else (list(words), None)
    if len(words) != 1:
        raise click.UsageError(f"--shell takes one text after --, in quotes; {len(words)} words are given.")
    # Filled in, an item's name would be read as code.
    if inside := re.search(r"\{(input|output|uri|output_uri|index)\}", words[0]):
        raise click.UsageError(
            f'--shell: write "$TIDEMILL_{inside[1].upper()}" in place of {inside[0]}, so that no item\'s name is ever '
            "read as shell code."
        )
    return ["/bin/sh", "-c", words[0]], None


def pairs(keyword: str, texts: Sequence[str]) -> dict[str, str]:
    """The pairs of a repeatable option that takes KEY=VALUE.

    Raises:
        UsageError: It is not of this form.
    """
    about = OPTIONS[keyword]
    split = [text.partition("=") for text in texts]
    for text, (key, equals, _) in zip(texts, split, strict=True):
        if not key or not equals:
            raise click.UsageError(f"{about.flags(keyword)[0]} is {text!r}; allowed: {about.metavar}.")
    return {key: value for key, _, value in split}
