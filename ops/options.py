"""Options that several commands have."""

import click

WHERE = click.option(
    "--on",
    "where",
    type=click.Choice(["localcloud", "login"]),
    default="localcloud",
    show_default=True,
    help="An AWS or GCP on this machine, or the account and backend that you are logged in to.",
)
