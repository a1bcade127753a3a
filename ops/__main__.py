"""Entry point of `python -m ops`: one module per command, loaded on demand."""

import errno
import importlib
from typing import Any

import click

from ops.clouds import CLIENTS
from ops.options import Commands
from tidemill.errors import CallerError

# Each command is the function of its name. Loading all of them takes a second (both clouds' SDKs and the engine's), so
# listing them loads none.
COMMANDS = {
    "advise": ("ops.advise.command", "Say which families, zones and rungs a queue should have."),
    "affected": ("ops.affected", "List the stacks that a change can affect."),
    "check": ("ops.check", "Validate stack files, without an engine or a cloud."),
    "comment": ("ops.ci.github", "Write or update the comment under a pull request on GitHub."),
    "costs": ("ops.costs.command", "Show what teams really cost per month, beside their estimate."),
    "deploy": ("ops.deploy", "Bring a stack up on your login, as planned."),
    "drift": ("ops.drift", "Compare what is deployed with what the code says."),
    "estimate": ("ops.estimate", "Estimate a stack's cost, idle and at most."),
    "first-account": ("ops.first_account", "Check on a real account what localcloud only assumes."),
    "insights": ("ops.clouds.aws_insights", "Turn Container Insights of a stack on AWS on or off."),
    "orphans": ("ops.orphans", "List deployed stacks whose file is gone."),
    "owners": ("ops.owners", "Write CODEOWNERS for what guards the stacks."),
    "plan": ("ops.deploy", "Preview a stack on your login and save the plan."),
    "preview": ("ops.preview", "Show what a stack would make, under the policies."),
    "prices": ("ops.prices", "Show, refresh or set the prices that estimates use."),
    "queue": ("ops.queue", "Add, change or remove a queue of a stack file."),
    "quotas": ("ops.clouds.quotas", "Check quotas of the account or project against a stack."),
    "restore": ("ops.backend.restore", "Restore a stack's state from the versions in its bucket."),
    "review": ("ops.review.command", "Show what a change does, most dangerous first."),
    "stack": ("ops.stack", "Write a new team's stack file."),
    "workflows": ("ops.workflows", "Lint the GitHub workflows."),
}


_REFUSED = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)


class Loaded(Commands):
    """The group of them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a cloud whose part is not installed is the caller's to install, a bad price file to mend, and
        so is a file that cannot be read, or a disk that takes none."""
        try:
            return super().invoke(ctx)
        except CallerError as error:
            raise click.UsageError(str(error)) from None
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            raise click.UsageError(f"{error.filename or 'a file'}: {error.strerror}.") from None
        except ModuleNotFoundError as error:
            cloud = next((cloud for cloud, names in CLIENTS.items() if (error.name or "").startswith(names)), None)
            if cloud is None:
                raise
            text = f"what {cloud} stacks need is not installed. Install it: make .venv/.{cloud}"
            raise click.UsageError(text) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module, _ = COMMANDS.get(cmd_name, (None, None))
        return getattr(importlib.import_module(module), cmd_name.replace("-", "_")) if module else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in sorted(COMMANDS.items())])


@click.group(cls=Loaded)
def main() -> None:
    """The platform team's commands."""


if __name__ == "__main__":
    main(prog_name="python -m ops")
