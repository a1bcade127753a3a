"""Entry point of `python -m ops`: a module a command."""

import click

from ops.preview import preview
from ops.quotas import quotas


@click.group()
def main() -> None:
    """The platform team's commands."""


main.add_command(preview)
main.add_command(quotas)

if __name__ == "__main__":
    main(prog_name="python -m ops")
