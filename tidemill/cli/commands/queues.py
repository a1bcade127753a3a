"""`tidemill queues`: the queues of the pipeline and their machines, and the change that adds one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from click.core import ParameterSource

from tidemill.cli.kinds import Size
from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, show_table


@click.group(invoke_without_command=True, subcommand_metavar="[request ...]")
@common
@click.pass_context
def command(ctx: click.Context, pipeline: str | None, as_json: bool) -> int:
    """List the queues of the pipeline: resources per item, machines, capacity, images and state.

    `tidemill queues request NAME` writes the change of the stack file that adds a queue.
    """
    if ctx.invoked_subcommand:
        # An option in front would be lost: the environment comes before it there.
        if any(ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in ctx.params):
            raise click.UsageError(f"Type the options after `{ctx.invoked_subcommand}`.")
        return 0
    queues = load(pipeline).queues()
    if as_json:
        show_json({"queues": [queue.to_json() for queue in queues]})
        return 0
    header = ("queue", "state", "item", "machines", "capacity", "images")
    show_table(header, [(q.name, q.state.detail, q.item, q.machines, q.capacity, ", ".join(q.images)) for q in queues])
    return 0


@command.command(epilog="Example: tidemill queues request gpu --cpus 4 --memory 14G --gpus 1 > gpu.yaml")
@click.argument("name")
@click.option("--cpus", type=click.IntRange(min=1), default=1, show_default=True, help="vCPUs of an item.")
@click.option("--memory", type=Size(), metavar="SIZE", help="Memory of an item: 512M, 16G. Default: 2G.")
@click.option("--gpus", type=click.IntRange(min=0), default=0, show_default=True, help="GPUs of an item.")
@click.option("--image", help="Its image, as a stack file names it. Default: that of a queue that is there.")
@click.option("--max-cpus", type=click.IntRange(min=1), help="Most vCPUs of its machines. Default: the stack file's.")
@click.option("--file", metavar="PATH", help="The stack file: prints a patch of it. Default: prints the keys to add.")
@common
def request(*, pipeline: str | None, as_json: bool, **wanted: Any) -> int:
    """Write the change of the stack file that adds a queue, and name who can make it.

    Its machines are those of a queue that is there, if an item fits on them, else those that cost least. The owner
    reviews the change; this command asks no cloud and changes nothing. `git apply` takes the patch.
    """
    asked = load(pipeline).request_queue(**wanted)
    if as_json:
        show_json(asdict(asked))
        return 0
    click.echo(asked.keys if asked.patch is None else asked.patch, nl=False)
    click.echo(f"Send this to {asked.owner}, who owns the queues.", err=True)
    return 0
