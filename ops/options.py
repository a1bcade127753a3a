"""Options that several commands have."""

from pathlib import Path
from typing import Any

import click

from ops.project import HOMES
from tidemill.errors import nearest


class Commands(click.Group):
    """A group that answers a mistyped command with the nearest one, and with all of them."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"Unknown command {args[0]!r}.{nearest(args[0], known)} Commands: {', '.join(known)}.")
        return super().resolve_command(ctx, args)


class StackName(click.ParamType):
    """A stack by its name, or by the path of its file, which shells complete: `stacks/Pulumi.vision-dev.yaml`."""

    name = "stack"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = Path(value)
        if not (path.name.startswith("Pulumi.") and path.suffix == ".yaml"):
            return value
        name = path.stem.removeprefix("Pulumi.")
        return f"{path.parent.name}/{name}" if path.parent.name in HOMES else name


STACK = StackName()
STACKS = click.option(
    "--stack",
    "stacks",
    type=STACK,
    required=True,
    multiple=True,
    help="A stack of stacks/, such as vision-dev; repeat.",
)
WHERE = click.option(
    "--on",
    "where",
    type=click.Choice(["localcloud", "login"]),
    default="localcloud",
    show_default=True,
    help="An AWS or GCP on this machine, or the account and backend that you are logged in to.",
)
