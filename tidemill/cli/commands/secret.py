"""`tidemill secret`: keep secrets of one's own for jobs."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, load
from tidemill.cli.show import show_json
from tidemill.errors import CallerError

if TYPE_CHECKING:
    from tidemill.client.secrets import PersonalSecrets


@click.command(epilog="Example: tidemill secret set HF_TOKEN; tidemill run --secret HF_TOKEN -- python3 train.py")
@click.argument("action", metavar="set|list|rm", type=click.Choice(["set", "list", "rm"]))
@click.argument("names", nargs=-1, metavar="[NAME]")
@click.option("--from-file", metavar="FILE", help="With set: read the value from a file.")
@click.option("--local", is_flag=True, help="On this machine, for `tidemill run`, whatever pipeline is in use.")
@common
def command(
    action: str, names: tuple[str, ...], *, from_file: str | None, local: bool, pipeline: str | None, as_json: bool
) -> int:
    """Keep secrets of your own, which jobs find as variables.

    `set` asks for the value without showing it, or reads it from standard input or --from-file; a line loses its end.
    `--secret NAME` of submit, run and train gives it to a job. No command shows a value.
    """
    if len(names) > 1:
        # Not even in the error: what follows the name may be the value.
        raise click.UsageError(
            "a value is not typed into the command, where the shell's history and the process list would have it. "
            "`tidemill secret set NAME` asks for it."
            if action == "set"
            else f"{action} takes one NAME at a time."
        )
    name = next(iter(names), None)
    if (action == "list") != (name is None):
        raise click.UsageError(f"{action} takes {'no NAME' if name else 'a NAME, such as HF_TOKEN'}.")
    if from_file is not None and action != "set":
        raise click.UsageError("--from-file goes with set.")
    secrets = _secrets(pipeline, local)
    if action == "set" and name:
        from tidemill.secrets.rules import check_name

        check_name(name)
        # Known before a value is typed in vain.
        place = secrets.place
        secrets.set(name, _value(name, from_file))
        said = f"{name} is kept in {place}."
    elif action == "rm" and name:
        secrets.remove(name)
        said = f"{name} is removed from {secrets.place}."
    else:
        said = ""
    known = secrets.names()
    if as_json:
        show_json({"place": secrets.place, "secrets": known})
    elif said:
        click.echo(said, err=True)
    elif known:
        click.echo("\n".join(known))
    else:
        click.echo(f"No secret is set in {secrets.place}: tidemill secret set NAME sets one.", err=True)
    return 0


def _secrets(pipeline: str | None, local: bool) -> PersonalSecrets:
    """Those of the pipeline in use; of this machine where that is asked for, or where no pipeline is in use."""
    if not local:
        with suppress(click.UsageError):
            return load(pipeline).secrets
    from tidemill.client.secrets import PersonalSecrets
    from tidemill.secrets.local import LocalSecrets

    return PersonalSecrets(LocalSecrets())


def _value(name: str, from_file: str | None) -> str:
    """The value: of a file, of a pipe, or typed twice without an echo.

    Raises:
        CallerError: It cannot be read, or is no text.
    """
    from tidemill.secrets.rules import MOST_BYTES, VALUE, one_line

    if from_file is None and sys.stdin.isatty():
        return click.prompt(f"Value of {name}", hide_input=True, confirmation_prompt=True, err=True)
    try:
        if from_file is None:
            data = sys.stdin.buffer.read(2 * MOST_BYTES)
        else:
            with Path(from_file).open("rb") as file:
                data = file.read(2 * MOST_BYTES)
        return one_line(data.decode())
    except OSError as error:
        raise CallerError(f"--from-file: {from_file} cannot be read: {error.strerror}.", "Give another file.") from None
    except UnicodeDecodeError:
        fix = "Encode binary data, as base64 does."
        raise CallerError(f"the value of {name} is not UTF-8; it must be {VALUE}.", fix, what=name) from None
