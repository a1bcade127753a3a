"""`tidemill up`: a pipeline of one's own in one's own account."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.options import as_json
from tidemill.cli.personal import PLACE, Personal, Say, options, unlocked
from tidemill.cli.show import show_json
from tidemill.errors import CallerError

if TYPE_CHECKING:
    from collections.abc import Mapping

BUDGET_USD, MOST_CPUS = 50, 32
COUNT = 'wc -c < "$TIDEMILL_INPUT" > "$TIDEMILL_OUTPUT/bytes.txt"'


@click.command()
@click.option("--email", help="Whom the budget and alarms tell. The first `up` needs it.")
@click.option("--budget", metavar="USD", type=click.IntRange(min=1), help=f"Per month.  [default: {BUDGET_USD}]")
@click.option(
    "--max-cpus", metavar="N", type=click.IntRange(min=1), help=f"Most vCPUs at once.  [default: {MOST_CPUS}]"
)
@click.option("--image", metavar="REF", help="The image that programs run in, by digest.  [default: Python's own]")
@click.option("--worker-image", metavar="REF", help="The worker's image; without it --image must contain tidemill.")
@click.option("--billing-account", metavar="ID", help="GCP: the billing account of the project, for the budget.")
@click.option("--preview", is_flag=True, help="Only show what would change, and its price.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@options
@as_json
def command(*, preview: bool, yes: bool, unlock: bool, as_json: bool, **given: Any) -> int:
    """Make or change a small pipeline of your own, in your own account.

    It shows what it will make and what that costs, and asks. Typed again it changes nothing, or what you have edited in
    the stack file. `tidemill down` takes everything away.
    """
    if not (yes or preview) and (as_json or not sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask on: give --yes, or --preview.")
    say: Say = partial(click.echo, err=as_json)
    mine = Personal(**{key: given.pop(key) for key in PLACE})
    with mine.alone():
        changes, uri = up(mine, given, say, ask=not yes, only_preview=preview, unlock=unlock)
    if as_json:
        show_json({"stack": mine.file.stack, "changes": changes, "pipeline": uri})
    return 0


def up(
    mine: Personal, given: dict[str, Any], say: Say, *, ask: bool, only_preview: bool, unlock: bool
) -> tuple[dict[str, int], str | None]:
    """Returns the changes, and the pipeline's URI; None after a preview alone."""
    home, first = mine.home(), mine.home_stack()
    stack = mine.stack(home)
    if unlock:
        unlocked(stack if home else None, first, say)
    settle_file(mine, stack, home, given)
    mine.file.config()
    say(f"{mine.file.stack} in {mine.account}, {mine.region}. Its file is {mine.file.path}.")
    changes = stack.preview(say)
    say("Changes: " + (", ".join(f"{count} to {kind}" for kind, count in sorted(changes.items())) or "none") + ".")
    say(priced(mine, stack))
    if only_preview:
        return changes, None
    if ask and (changes or home is None):
        click.confirm("Go on?", abort=True)
    mine.prepare()
    if home is None:
        first.make(say)
        home = mine.found_home()
        first.settle(home, unlock=unlock)
    outputs = mine.stack(home).up(say)
    use(mine.file.stack, outputs["pipeline_uri"])
    say(after(mine, outputs))
    return changes, outputs["pipeline_uri"]


def settle_file(mine: Personal, stack: Any, home: Any | None, given: dict[str, Any]) -> None:
    """Write the stack file, restore it, or set in it what is given."""
    path = mine.file.path
    if not path.exists() and home is not None:
        stack.restore_file()
    if path.exists():
        stack.change(mine.components.StackOptions(**given))
        return
    if given["email"] is None:
        raise CallerError(
            "The first `up` needs an address.", "Give --email: the budget and alarms tell it.", what="--email"
        )
    if mine.billed_by and given["billing_account"] is None:
        raise CallerError(
            "The first `up` here needs a billing account, to which the budget belongs.",
            f"Give --billing-account; `{mine.billed_by}` shows yours.",
            what="--billing-account",
        )
    defaults = {"budget": BUDGET_USD, "max_cpus": MOST_CPUS}
    chosen = {key: defaults.get(key) if value is None else value for key, value in given.items()}
    mine.file.write(mine.account, mine.region, mine.components.StackOptions(**chosen))


def priced(mine: Personal, stack: Any) -> str:
    """Its price, and who hears of it."""
    costs = stack.prices(mine.region)
    idle = f"Idle: {costs.idle_month} per month, and {costs.home_month} for the key of the state, besides storage."
    lines = [f"{idle} At full capacity: {costs.burn_hour} per hour."]
    if budget := mine.file.config().budget:
        lines.append(
            f"The budget tells {', '.join(budget.notify)} when a month comes near {budget.monthly_usd} USD. It stops "
            "nothing; `submit --max-usd` stops a job."
        )
    return "\n".join(lines)


def use(name: str, uri: str) -> None:
    from tidemill.cli import contexts

    saved = contexts.read()
    saved.pipelines[name] = uri
    saved.current = name
    contexts.write(saved)


def after(mine: Personal, outputs: Mapping[str, str]) -> str:
    """The next commands."""
    lines = [f"{mine.file.stack} is up, and in use: {outputs['pipeline_uri']}"]
    if mine.file.config().worker_image is None:
        lines.append(
            f"No worker image is set, so the queue's image must contain tidemill. A checkout makes one for any image: "
            f"`make worker PUSH={outputs['registry_url']}/tidemill-worker`, then `tidemill up --worker-image REF`."
        )
    lines.append(f"Next: tidemill submit --name first --items FOLDER --shell -- '{COUNT}'")
    return "\n".join(lines)
