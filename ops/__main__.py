"""Entry point of `python -m ops`: a module a command."""

import click

from ops.preview import preview


@click.group()
def main() -> None:
    """The platform team's commands."""


main.add_command(preview)

if __name__ == "__main__":
    main(prog_name="python -m ops")
