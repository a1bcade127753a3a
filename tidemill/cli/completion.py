"""`tidemill completion`: the script that completes commands, options and names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_TIDEMILL_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the completion script of SHELL.

    \b
    bash  eval "$(tidemill completion bash)"                              in ~/.bashrc (bash 4.4 or later)
    zsh   eval "$(tidemill completion zsh)"                               in ~/.zshrc, after compinit
    fish  tidemill completion fish > ~/.config/fish/completions/tidemill.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click has no completion for {shell}.")
    script = kind(ctx.find_root().command, {}, "tidemill", VARIABLE)
    # `source` of bash asks the bash that is installed for its version, which the shell at hand need not be.
    click.echo(script.source_template % script.source_vars())
    return 0
