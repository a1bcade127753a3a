"""`python -m ops first-account`: what only a real account can tell, asked in the first hour."""

import sys
from datetime import timedelta

import click

from ops.engine import mistakes_told
from ops.first_account.account import Account, DiffersError
from ops.first_account.checks import CHECKS
from ops.options import STACK
from ops.project import read_config
from tidemill.errors import TidemillError

WAIT = timedelta(minutes=30)


@click.command("first-account")
@click.option("--stack", type=STACK, required=True, help="A stack of stacks/ that is up in the backend.")
@click.option("--queue", help="A queue whose default image has `sh`. Default: the stack's first.")
def first_account(stack: str, queue: str | None) -> None:
    """Run the checks of docs/first-account.md that need no hand, on the cloud of your login.

    Submits three small jobs, which start one or two machines for some minutes. Changes nothing else. Exits 1 when an
    answer differs from the expected one, 2 when what was typed or the stack file is wrong.
    """
    config = read_config(stack)
    names = list(config.queues)
    if queue is not None and queue not in names:
        raise click.UsageError(f"--queue {queue}: the stack has {', '.join(names)}.")
    with mistakes_told():
        account = Account(stack, config, queue or names[0], WAIT.total_seconds())
    differs = 0
    for number, check in enumerate((one for one in CHECKS if config.cloud in one.clouds), 1):
        if check.probe is None:
            verdict, seen = "by hand", check.command
        else:
            try:
                verdict, seen = "ok", check.probe(account)
            except DiffersError as error:
                verdict, seen = "DIFFERS", f"{error} Expected: {check.expect} {check.otherwise}"
            except TidemillError as error:
                verdict, seen = "not asked", str(error)
        differs += verdict in ("DIFFERS", "not asked")
        click.echo(f"{number:>2}  {verdict:<9}  {check.name}: {seen}")
    sys.exit(1 if differs else 0)
