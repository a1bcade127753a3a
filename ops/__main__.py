"""Entry point of `python -m ops`: a module a command."""

import click

from ops.affected import affected
from ops.check import check
from ops.deploy import deploy, plan
from ops.drift import drift
from ops.estimate import estimate
from ops.github import comment
from ops.preview import preview
from ops.prices import prices
from ops.queue import queue
from ops.quotas import quotas
from ops.review.command import review
from ops.stack import stack
from ops.workflows import workflows


@click.group()
def main() -> None:
    """The platform team's commands."""


main.add_command(affected)
main.add_command(check)
main.add_command(comment)
main.add_command(deploy)
main.add_command(drift)
main.add_command(estimate)
main.add_command(plan)
main.add_command(preview)
main.add_command(prices)
main.add_command(queue)
main.add_command(quotas)
main.add_command(review)
main.add_command(stack)
main.add_command(workflows)

if __name__ == "__main__":
    main(prog_name="python -m ops")
