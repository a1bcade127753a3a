"""`tidemill completion`: the script that completes commands, options, names and files in a shell."""

from __future__ import annotations

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    get_completion_class,
)

VARIABLE = "_TIDEMILL_COMPLETE"


class _OrFiles(ShellComplete):
    """Completes files where nothing else is known: a script takes the place of the shell's own completion."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        return super().get_completions(args, incomplete) or [CompletionItem(incomplete, type="file")]


for _shell in (BashComplete, ZshComplete, FishComplete):
    add_completion_class(type(f"{_shell.__name__}OrFiles", (_OrFiles, _shell), {}), _shell.name)


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
