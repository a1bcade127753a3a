"""`tidemill submit`: send a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.job_options import ProgramAfterDashes, arguments_of, how_it_runs, options, place_of_job, what_runs
from tidemill.cli.known_jobs import note_jobs
from tidemill.cli.options import as_typed, common, flags_of, load, pipeline_uri
from tidemill.cli.show import show_facts, show_json, shown_place
from tidemill.figures import counted, duration, file_size, span

if TYPE_CHECKING:
    from tidemill.client import Job
    from tidemill.client.sending.preview import JobPreview


@click.command(
    cls=ProgramAfterDashes,
    options_metavar="[OPTIONS]",
    epilog="Example: tidemill submit --queue cpu --items tiles.txt -- python3 features.py {input} {output}",
)
@place_of_job
@options("image")
@what_runs
@options("slots")
@how_it_runs
@options("changed", "new", "force")
@click.option("--yes", "-y", is_flag=True, help="Upload any amount without a question.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and create nothing.")
@common
@click.pass_context
def command(
    ctx: click.Context, /, *, pipeline: str | None, as_json: bool, yes: bool, dry_run: bool, **given: Any
) -> int:
    """Send a job: PROGRAM runs once for every item.

    In the program's arguments, {input} becomes a local copy of the item and {output} a folder whose files are kept;
    {uri}, {output_uri} and {index} are for programs that stream by themselves. No shell is involved. With --code,
    {code} is the folder on the machine, and PROGRAM may name its files by their relative paths.
    """
    from tidemill.cli.transfers import asking, watching

    asked = arguments_of(ctx, given)
    if dry_run:
        return show_preview(load(pipeline).preview(**asked), as_json)
    job = load(pipeline).submit(**asked, confirm=asking(yes), watch=watching)
    return show_sent(job, as_json, pipeline)


def show_preview(preview: JobPreview, as_json: bool) -> int:
    """Show the preview of a submit."""
    from dataclasses import asdict, replace

    preview = replace(preview, why=as_typed(preview.why, flags_of(click.get_current_context().command)))
    if as_json:
        show_json(asdict(preview))
        return 0
    names = preview.machines
    machines = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
    there = f"; {preview.uploaded_files} more are in the store" if preview.uploaded_files else ""
    facts: dict[str, object] = {
        "queue": preview.queue,
        "items": f"{preview.items} in {preview.why}",
        "uploads": f"{counted(preview.upload_files, 'file')} ({file_size(preview.upload_bytes)}){there}",
        "machines": machines,
        "at once": f"{span(str(preview.at_once_low), str(preview.at_once_high))} items, when the queue is full",
    }
    if each := preview.estimate:
        facts["core hours"] = f"{each.core_hours:.3g}"
        facts["wall time"] = span(duration(each.hours_low * 3600), duration(each.hours_high * 3600))
        for market, cost in (("spot", each.spot), ("on_demand", each.on_demand)):
            if market in each.markets and cost.low is not None and cost.high is not None:
                facts[f"USD {market}"] = span(f"{cost.low:.2f}", f"{cost.high:.2f}")
        if each.origin:
            facts["prices"] = str(each.origin)
    show_facts(facts)
    click.echo("Nothing was created.", err=True)
    return 0


def show_sent(job: Job, as_json: bool, pipeline: str | None) -> int:
    note_jobs(pipeline_uri(pipeline), [job.id])
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
