"""The group of commands, and how every failure becomes one line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tidemill.errors import TidemillError

COMMANDS = {
    "submit": "Submit a job: one program, many items.",
    "train": "Train: one program, many hyperparameters.",
    "estimate": "Estimate a job's time and cost before submitting it.",
    "advise": "Compare machines and regions: price, risk, cost of the work.",
    "status": "Show a job's progress.",
    "top": "Watch running jobs and the queues' machines.",
    "explain": "Say why a job does not progress, and what to do.",
    "wait": "Wait until a job ends, then show its figures.",
    "logs": "Show what a job's items printed.",
    "cancel": "Stop a job; finished items are kept.",
    "retry": "Run finished items again (failed ones, or any you name).",
    "resume": "Continue a job that was lost or cancelled.",
    "jobs": "List the newest jobs of the pipeline.",
    "results": "Show the outcome of every finished item.",
    "fetch": "Bring a job's outputs to this machine.",
    "metrics": "Show the metrics of a job's items, such as their losses.",
    "run": "Run a job on this machine, without a cloud.",
    "failures": "Group failed items by error message, largest group first.",
    "report": "Write a job's report: an HTML file, or JSON.",
    "rm": "Remove jobs with all that is kept of them.",
    "clean": "Remove old jobs, and what no job uses.",
    "template": "Keep a submit, and send it again: by hand, at times, for new files.",
    "templates": "List the submits that are kept.",
    "queues": "List the queues of the pipeline and their machines.",
    "secret": "Keep secrets of your own, for your jobs.",
    "doctor": "Check your setup, with a fix for each problem.",
    "use": "Choose the default pipeline.",
    "up": "Make a pipeline of your own, in your own account.",
    "down": "Take your own pipeline away.",
    "completion": "Set up completion for bash, zsh or fish.",
}

SYNONYMS = {
    "download": "fetch",
    "kill": "cancel",
    "list": "jobs",
    "ls": "jobs",
    "ps": "jobs",
    "delete": "rm",
    "prune": "clean",
    "remove": "rm",
    "rerun": "retry",
    "stop": "cancel",
    "tail": "logs",
}
"""Other tools' names for our commands."""
CALLER_ERROR = 2
REFUSED = 3
BUG = 70
"""An exception that nothing foresaw, as EX_SOFTWARE of sysexits.h. A script can tell it from a refusal of the cloud."""
INTERRUPTED = 130


class LazyCommands(click.Group):
    """Lists commands from a table and imports a command's module when it is typed, so that `--help` is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return importlib.import_module(f"tidemill.cli.commands.{cmd_name}").command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"Unknown command {args[0]!r}.{suggestion(args[0])} Commands: {', '.join(COMMANDS)}.")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            part = command.commands.get(rest[0]) if isinstance(command, click.Group) and rest else None
            refuse_repeated(part or command, click.Context(part or command, ctx, name), rest[1:] if part else rest)
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyCommands, subcommand_metavar="COMMAND [ARGS]...", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="tidemill", message="%(version)s")
def app() -> None:
    """Item-parallel jobs on Spot capacity.

    Commands that use a pipeline take --pipeline: the URI of the stack's pipeline.json (or TIDEMILL_PIPELINE, or once
    `tidemill use URI`). All but `completion` take --json. Exit codes: 0 done, 1 items have failed or will not run, 2 a
    mistake in what was typed, 3 the cloud refused, 70 a bug in Tidemill.
    """


def refuse_repeated(command: click.Command, ctx: click.Context, args: list[str]) -> None:
    """Refuse an option that is given twice and has one value: click would take the last.

    Raises:
        UsageError: There is such an option.
    """
    try:
        typed = command.make_parser(ctx).parse_args([*own_part(args)])[2]
    except click.UsageError:
        # The command itself reports it, with its hints.
        return
    for param in dict.fromkeys(typed):
        times = typed.count(param)
        if times > 1 and isinstance(param, click.Option) and not (param.multiple or param.is_flag):
            raise click.UsageError(f"{max(param.opts, key=len)} is given {times} times; give it once.", ctx)


def suggestion(word: str) -> str:
    """The command that is probably meant: other tools have other names, and people mistype."""
    from tidemill.errors import nearest

    return f" Did you mean {SYNONYMS[word]!r}?" if word in SYNONYMS else nearest(word, COMMANDS)


def execute(arguments: list[str]) -> int:
    if "_TIDEMILL_COMPLETE" in os.environ:
        importlib.import_module("tidemill.cli.commands.completion")
    try:
        code = app.main(arguments or ["--help"], "tidemill", standalone_mode=False, terminal_width=width())
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo(f"tidemill: interrupted.{after_interrupt(own_part(arguments))}", err=True)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader (`| head`) has closed the pipe, and click raises SystemExit. Print nothing, not even when Python
        # flushes at exit.
        mute()
        return 0
    except Exception as error:
        if os.environ.get("TIDEMILL_DEBUG"):
            raise
        return report(*explain(error), own_part(arguments))


def mute() -> None:
    """Send what is still printed nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width() -> int:
    """The width of help, as click chooses it. For that it would import `shutil`, a twentieth of what `--help` takes."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return _within(int(columns))
    try:
        return _within(os.get_terminal_size(1).columns or 80)
    except OSError:
        return _within(80)


def _within(columns: int) -> int:
    return max(min(columns, 80) - 2, 50)


def after_interrupt(own: list[str]) -> str:
    """Hint on the job whose command was interrupted, with the command to type."""
    command = own[0] if own else ""
    if command in ("run", "fetch", "rm", "clean") or "--here" in own:
        return " The same command continues."
    if command in ("submit", "train", "wait"):
        return " A submitted job continues: `tidemill wait JOB` watches it again."
    return ""


def explain(error: Exception) -> tuple[TidemillError, int]:
    from tidemill.errors import TidemillError, one_line

    if isinstance(error, TidemillError):
        return error, CALLER_ERROR if error.exit_code == CALLER_ERROR else REFUSED
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "tidemill"
        fix = f"{hyperparameter(error) or no_dashes(error)}See `{command} --help`."
        text = error.format_message()
        if isinstance(error, click.NoSuchOption):
            likely = likely_option(error)
            text = f"No such option {error.option_name!r}.{f' Did you mean {likely!r}?' if likely else ''}"
        return TidemillError(text if text.endswith((".", "?")) else f"{text}.", fix, what=subject(error)), CALLER_ERROR
    if isinstance(error, click.ClickException):
        return TidemillError(error.format_message()), CALLER_ERROR
    if isinstance(error, OSError) and error.strerror:
        return TidemillError(f"{error.filename or 'the output or a temporary file'}: {error.strerror}."), REFUSED
    fix = "This is a bug in Tidemill. Please report it with the traceback that TIDEMILL_DEBUG=1 shows."
    return TidemillError(f"unexpected {type(error).__name__}: {one_line(error)[:500]}.", fix), BUG


def subject(error: click.UsageError) -> str:
    """The option or argument that click complains about, empty for others."""
    if isinstance(error, click.NoSuchOption):
        return error.option_name
    if isinstance(error, click.BadParameter) and error.param:
        return max(error.param.opts, key=len)
    return ""


def hyperparameter(error: click.UsageError) -> str:
    """Hint for a hyperparameter that was typed as if it were an option of ours."""
    takes_some = error.ctx is not None and any("--hp" in param.opts for param in error.ctx.command.params)
    if not takes_some or not isinstance(error, click.NoSuchOption):
        return ""
    name = error.option_name.lstrip("-")
    return f"A hyperparameter is --hp {name}=VALUE; the program's own options come after `--`. "


def no_dashes(error: click.UsageError) -> str:
    """Hint for a program that was typed without `--` before it."""
    takes_one = error.ctx is not None and getattr(error.ctx.command, "takes_program", False)
    if not takes_one or not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.obj is not None:
        return ""
    return "A program and its own options come after `--`: `-- wc -w {input}`. "


def likely_option(error: click.NoSuchOption) -> str | None:
    """The shortest option that begins with what was typed, the one that another tool calls so, or the nearest."""
    from tidemill.client.keywords import other_name
    from tidemill.errors import closest

    options = [name for param in error.ctx.command.params for name in param.opts] if error.ctx else []
    if begin := [name for name in options if name.startswith(error.option_name)]:
        return min(begin, key=len)
    by_keyword = {name.lstrip("-").replace("-", "_"): name for name in options}
    other = other_name(error.option_name.lstrip("-").replace("-", "_"), by_keyword)
    return by_keyword[other] if other else closest(error.option_name, options)


def report(error: TidemillError, code: int, own: list[str]) -> int:
    """Print a failure: a line on stderr, and with `--json` its fields on stdout. `own` is what was typed of ours."""
    from tidemill.cli.options import as_typed, flags_of, message_of
    from tidemill.visible import visible

    flags = flags_of(typed_command(own))
    message = " ".join(visible(message_of(error, flags)).split())
    click.echo(f"tidemill: {message}", err=True)
    try:
        if "--json" in own:
            import json

            fields = error.to_json() | {"fix": as_typed(error.fix, flags) or None, "message": message}
            click.echo(json.dumps({"error": {"exit_code": code, **fields}}))
        sys.stdout.flush()
    except OSError:
        # The failure may be that of this output: its disk is full, or its reader is gone.
        mute()
    return code


def typed_command(own: list[str]) -> click.Command | None:
    """The command that was typed, or the part of it that was."""
    name = next((word for word in own if word in COMMANDS), None)
    command = importlib.import_module(f"tidemill.cli.commands.{name}").command if name else None
    if isinstance(command, click.Group):
        part = next((word for word in own if word in command.commands), "")
        return command.commands.get(part, command)
    return command


def own_part(arguments: list[str]) -> list[str]:
    """The part of a command line that is ours: before `--`."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments
