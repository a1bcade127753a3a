"""Entry point of `python -m ops`: a module a command, loaded when it is asked for."""

import importlib

import click

# A command is the function of its name. Together they load both clouds' SDKs and the engine's, which takes a second.
COMMANDS = {
    "affected": "ops.affected",
    "check": "ops.check",
    "comment": "ops.github",
    "deploy": "ops.deploy",
    "drift": "ops.drift",
    "estimate": "ops.estimate",
    "plan": "ops.deploy",
    "preview": "ops.preview",
    "prices": "ops.prices",
    "queue": "ops.queue",
    "quotas": "ops.quotas",
    "review": "ops.review.command",
    "stack": "ops.stack",
    "workflows": "ops.workflows",
}


class Commands(click.Group):
    """The group of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them; None when there is none of that name."""
        module = COMMANDS.get(cmd_name)
        return getattr(importlib.import_module(module), cmd_name) if module else None


@click.group(cls=Commands)
def main() -> None:
    """The platform team's commands."""


if __name__ == "__main__":
    main(prog_name="python -m ops")
