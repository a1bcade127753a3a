"""`tidemill submit`: send a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.job_options import ProgramAfterDashes, arguments_of, how_it_runs, place, what_runs
from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, shown_place

if TYPE_CHECKING:
    from tidemill.client import Job


@click.command(
    cls=ProgramAfterDashes,
    options_metavar="[OPTIONS]",
    epilog="Example: tidemill submit --queue cpu --items tiles.txt -- python3 features.py {input} {output}",
)
@place
@click.option("--image", default="default", show_default=True, help="One of the queue's images.")
@what_runs
@click.option("--slots", type=int, default=1, show_default=True, help="Items side by side in one container (AWS).")
@how_it_runs
@click.option("--yes", "-y", is_flag=True, help="Upload any amount without a question.")
@common
@click.pass_context
def command(ctx: click.Context, /, *, pipeline: str | None, as_json: bool, yes: bool, **given: Any) -> int:
    """Send a job: PROGRAM runs once for every item.

    In the program's arguments, {input} becomes a local copy of the item and {output} a folder whose files are kept;
    {uri}, {output_uri} and {index} are for programs that stream by themselves. No shell is involved. With --code,
    {code} is the folder on the machine, and PROGRAM may name its files by their relative paths.
    """
    from tidemill.cli.transfers import asking, watching

    job = load(pipeline).submit(**arguments_of(ctx, given), confirm=asking(yes), watch=watching)
    return show_sent(job, as_json)


def show_sent(job: Job, as_json: bool) -> int:
    spec = job.spec
    if as_json:
        show_json(
            {
                "job": job.id,
                "queue": spec.queue,
                "items": spec.items_total,
                "chunks": spec.chunks_total,
                "chunk_size": spec.chunk_size,
                "output": job.output,
                "enqueued": job.enqueued,
            }
        )
    else:
        then = f"`{job.run_command}` runs it." if job.run_command else f"`tidemill wait {job.id}` watches it."
        click.echo(f"Outputs go to {shown_place(job.output)}\n{then}", err=True)
        click.echo(job.id)
    return 0
