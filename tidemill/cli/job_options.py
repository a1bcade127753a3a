"""What `submit` and `run` have in common: a program, its items, and options of both."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import click

from tidemill.cli.kinds import Duration, Size

FUNCTION = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"


class ProgramAfterDashes(click.Command):
    """Everything after the first `--` belongs to the program; none of it is an option of ours."""

    takes_program = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.obj = args[:at], tuple(args[at + 1 :])
        _, _, typed = self.make_parser(ctx).parse_args(list(args))
        for param, times in Counter(typed).items():
            if times > 1 and isinstance(param, click.Option) and not (param.multiple or param.is_flag):
                option = max(param.opts, key=len)
                raise click.UsageError(f"{option} is given {times} times; give it once.", ctx)
        return super().parse_args(ctx, args)


_LISTS = [
    click.option(
        "--items-format", metavar="FORMAT", help="text, jsonl or csv. Default: by the name's ending, else text."
    ),
    click.option("--items-column", metavar="NAME", help="CSV: the column that is the item. Default: uri."),
]
_MEMORY = "Memory of an item: 512M, 2G; 96 MiB of it are the worker's. Default: the queue's."
_QUEUE = [
    click.option("--queue", help="Queue of the pipeline. Optional if there is only one."),
    click.option("--cpus", type=float, help="CPUs of an item. Default: the queue's."),
    click.option("--memory", "memory_mib", type=Size(), metavar="SIZE", help=_MEMORY),
    click.option("--gpus", type=int, help="GPUs of an item. Default: the queue's."),
]
_NAME = [click.option("--name", help="Name of the job. The same name, items and settings are the same job.")]
_ITEMS = [
    click.argument("uris", nargs=-1, metavar="[URI]... -- PROGRAM [ARGUMENT]..."),
    *_NAME,
    click.option(
        "--items",
        metavar="SOURCE",
        help="A list (text with one URI or path per line, .jsonl, .csv), a folder, a prefix or a pattern such as "
        "s3://bucket/prefix/**.jpg; - is standard input.",
    ),
    *_LISTS,
]
_PROGRAM = [
    click.option(
        "--function",
        metavar="MODULE:NAME",
        help="Instead of PROGRAM: a Python function, imported once and called with each item.",
    ),
    click.option(
        "--shell",
        is_flag=True,
        help='PROGRAM is one text that /bin/sh reads, with variables such as "$TIDEMILL_INPUT".',
    ),
]
_ITEM_TIME = [
    click.option(
        "--item-time",
        "--item-seconds",
        "item_seconds",
        type=Duration(),
        metavar="TIME",
        help="How long an item takes: 0.5s, 10m.",
    ),
]
_CHUNKS = [
    click.option("--chunk-size", type=int, help="Items per chunk. Default: chosen automatically."),
    *_ITEM_TIME,
    click.option(
        "--longest-first",
        metavar="BY",
        help="Send long items first, by their size, a column of numbers, or the times of an ended job: job://JOB.",
    ),
]
_HOW = [
    click.option("--attempts", type=int, default=3, show_default=True, help="Attempts of an item, 1 to 10."),
    click.option("--output", metavar="URI", help="Prefix of the outputs. Default: out/JOB in the job store."),
    click.option("--env", "variables", multiple=True, metavar="KEY=VALUE", help="Variable of the program. Repeatable."),
    click.option("--max-parallel", type=int, metavar="N", help="Items that run at once. Default: as many as fit."),
    click.option(
        "--input",
        "inputs",
        multiple=True,
        metavar="NAME=SOURCE",
        help="Data that all items read: an object, a prefix, a file or a folder; {NAME} in PROGRAM. Repeatable.",
    ),
    click.option(
        "--code",
        metavar="DIR|GIT",
        help="Folder to send with the job; its requirements.txt is installed. Or git+https://HOST/REPOSITORY@BRANCH.",
    ),
    click.option("--lib", "libs", multiple=True, metavar="DIR", help="Folder to add to the code, under its own name."),
    click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Tag for AWS's cost reports. Repeatable."),
    click.option(
        "--metric",
        "metrics",
        multiple=True,
        metavar="NAME=REGEX",
        help="Number to keep of what the program prints: 'loss=loss: ([0-9.]+)'. Repeatable.",
    ),
    click.option("--pip-index", metavar="URL", help="Package index for requirements.txt. Default: the image's own."),
    click.option("--wheelhouse", metavar="URI", help="Prefix of a store that holds the wheels for requirements.txt."),
    click.option(
        "--notify",
        multiple=True,
        metavar="CHANNEL|URL",
        help="Who is told when the job ends: a channel of the stack, or the https address of a webhook.",
    ),
    click.option(
        "--after", multiple=True, metavar="JOB", help="Start when JOB is complete: every item has ended. Repeatable."
    ),
    click.option(
        "--after-success", multiple=True, metavar="JOB", help="Start when every item of JOB has succeeded. Repeatable."
    ),
    click.option("--max-usd", type=float, metavar="USD", help="Stop the job at about this cost in USD."),
    click.option(
        "--usd-per-item-hour",
        type=float,
        metavar="USD",
        help="Price per item-hour used for --max-usd. Default: the price table.",
    ),
]


_STATE = [
    click.option(
        "--state", is_flag=True, help="Items keep a folder, {state}, that survives the loss of their machine."
    ),
    click.option(
        "--snapshot-every", type=Duration(1), metavar="TIME", help="How often the state is saved. Default: 1m."
    ),
    click.option("--state-gib", type=float, metavar="GIB", help="Limit of the state folder in GiB. Default: 50."),
    click.option(
        "--notice-signal",
        type=click.Choice(["TERM", "USR1", "none"]),
        help="What tells a program with state that its machine goes. Default: TERM.",
    ),
    click.option(
        "--from-state",
        metavar="JOB",
        help="Begin with the state that JOB has saved: that of its only item, or of the same index.",
    ),
]
_NO_STATE = click.option(
    "--no-state",
    is_flag=True,
    help="Keep nothing: an item whose machine goes begins anew.",
)
_OF_STATE = {
    "snapshot_every": "snapshot_seconds",
    "state_gib": "max_gib",
    "notice_signal": "notice_signal",
    "from_state": "from_job",
}
"""By option of `--state`: the field."""


def _timeout(default: str) -> Callable[..., Any]:
    help_ = f"Limit of an attempt: 90s, 2h. Default: {default}."
    return click.option("--timeout", "timeout_seconds", type=Duration(), metavar="TIME", help=help_)


def _all(options: list[Callable[..., Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda function: reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


item_lists = _all(_LISTS)
place = _all(_QUEUE)
"""Adds the queue and what an item needs of it."""
what_runs = _all([*_ITEMS, *_PROGRAM])
"""Adds the items and the program. The options of one command come after it, then `how_it_runs`."""
program = _all([*_NAME, *_PROGRAM])
"""Adds the program alone."""
how_it_runs = _all([*_CHUNKS, _timeout("1h; with --state 7d"), *_HOW, *_STATE])
"""Adds chunks, limits, outputs and code."""
how_it_trains = _all([*_ITEM_TIME, _timeout("7d; with --no-state 1d"), *_HOW, _NO_STATE, *_STATE[1:]])
"""The same without chunks, for items with state."""


def arguments_of(ctx: click.Context, given: dict[str, Any]) -> dict[str, Any]:
    """What was typed, as keyword arguments of `Pipeline.submit`. The context holds the program, where there is one.

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
    shell, variables = asked.pop("shell"), asked.pop("variables")
    command, asked["function"] = _program(ctx.obj or (), shell, asked["function"])
    asked["tags"] = _pairs("--tag", asked["tags"], "KEY=VALUE")
    asked["inputs"] = _pairs("--input", asked["inputs"], "NAME=SOURCE")
    asked["metrics"] = _pairs("--metric", asked["metrics"], "NAME=REGEX")
    asked["state"] = _state(asked)
    if len(asked["notify"]) > 1:
        raise click.UsageError("--notify is given more than once; give one. A topic may have many subscribers.")
    asked["notify"] = next(iter(asked["notify"]), None)
    return asked | {
        "command": command,
        "env": _pairs("--env", variables, "KEY=VALUE"),
        "log": partial(click.echo, err=True),
    }


def _state(asked: dict[str, Any]) -> dict[str, Any] | bool:
    """What the options say of state; they leave `asked`."""
    wanted = asked.pop("state") if "state" in asked else not asked.pop("no_state") and asked["function"] is None
    given = {option: value for option in _OF_STATE if (value := asked.pop(option)) is not None}
    if given and not wanted:
        raise click.UsageError(f"--{min(given).replace('_', '-')} goes with items that have state.")
    return {_OF_STATE[option]: value for option, value in given.items()} if wanted else False


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


def _pairs(option: str, texts: Sequence[str], allowed: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for text, (key, equals, _) in zip(texts, pairs, strict=True):
        if not key or not equals:
            raise click.UsageError(f"{option} is {text!r}; allowed: {allowed}.")
    return {key: value for key, _, value in pairs}
