"""`tidemill train`: send a job of hyperparameters, or rehearse it on this machine."""

from __future__ import annotations

from typing import Any

import click

from tidemill.cli.commands.submit import show_preview, show_sent
from tidemill.cli.job_options import (
    ProgramAfterDashes,
    how_it_trains,
    options,
    place_of_job,
    program,
    rehearsed,
    with_program,
)
from tidemill.cli.kinds import Duration
from tidemill.cli.options import common, load

ELSEWHERE = ("pipeline", "queue", "image", "cpus", "gpus", "dry_run")
"""Options about a queue, which `--here` does not have."""
HERE = ("workers", "store", "reclaim_every")
"""Options of `--here`."""


@click.command(
    cls=ProgramAfterDashes,
    options_metavar="[OPTIONS] -- PROGRAM [ARGUMENT]...",
    epilog="Example: tidemill train --queue gpu --code . --sweep lr=1e-3,3e-4 --sweep seed=0..4 -- python3 train.py "
    "--lr {lr} --seed {seed}",
)
@click.option(
    "--sweep", multiple=True, metavar="NAME=VALUES", help="Hyperparameter and its values: lr=1e-3,3e-4 or seed=0..4."
)
@click.option(
    "--sweep-file", metavar="FILE", help="Combinations listed one by one: .csv with a header, or JSON lines (.jsonl)."
)
@click.option("--hp", multiple=True, metavar="NAME=VALUE", help="Hyperparameter that does not vary. Repeatable.")
@options(
    "changed",
    "new",
    "force",
    changed="Run only combinations that are new or failed; after a change of code or settings, all.",
    new="Run only combinations that no earlier job of this name has.",
    force="Train again, even if this job exists.",
)
@place_of_job
@options("image")
@program
@how_it_trains
@click.option("--yes", "-y", is_flag=True, help="Upload any amount without a question.")
@click.option("--dry-run", is_flag=True, help="Say what would happen, and create nothing.")
@click.option("--here", is_flag=True, help="Rehearse on this machine, without a cloud.")
@click.option("--workers", type=click.IntRange(1, 1024), help="--here: items side by side. Default: as many as fit.")
@click.option("--store", metavar="URI", help="--here: job store, file:///folder. Default: ./.tidemill")
@click.option("--reclaim-every", type=Duration(0.1), metavar="TIME", help="--here: stop a worker this often.")
@common
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    sweep: tuple[str, ...],
    sweep_file: str | None,
    hp: tuple[str, ...],
    pipeline: str | None,
    here: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Train: PROGRAM runs once for every combination of hyperparameters.

    In the program's arguments, {lr} becomes the hyperparameter lr, {output} a folder whose files are kept at the end,
    and {state} a folder for checkpoints, which survives the machine. The program also finds what programs for SageMaker
    expect: SM_HPS, SM_HP_LR, SM_MODEL_DIR and others. With --name, the same command finds the same job again, and a
    finished one has its results at once.
    """
    check_place(ctx, here)
    bench = {name: given.pop(name) for name in HERE}
    asked = with_program(ctx, given)
    from tidemill.client.items.sweep import Sweep, parse_hyperparameters, parse_sweep, read_rows

    rows = None if sweep_file is None else read_rows(sweep_file)
    asked["sweep"] = Sweep(parse_sweep(sweep), rows=rows, hyperparameters=parse_hyperparameters(hp))
    if here:
        return train_here(asked, bench, as_json)
    if dry_run:
        return show_preview(load(pipeline).preview_training(**asked), as_json)
    from tidemill.cli.transfers import asking, watching

    return show_sent(load(pipeline).train(**asked, confirm=asking(yes), watch=watching), as_json, pipeline)


def check_place(ctx: click.Context, here: bool) -> None:
    """Refuse options of the other place.

    Raises:
        UsageError: A queue together with `--here`, or an option of `--here` without it.
    """
    typed = click.core.ParameterSource.COMMANDLINE
    wrong = ELSEWHERE if here else HERE
    for param in ctx.command.params:
        if param.name in wrong and ctx.get_parameter_source(param.name) is typed:
            option = max(param.opts, key=len)
            raise click.UsageError(f"{option} does not go with --here." if here else f"{option} goes with --here.")


def train_here(asked: dict[str, Any], given: dict[str, Any], as_json: bool) -> int:
    from tidemill.cli.commands.run import LocalSettings, keeping, typed_here, work

    with keeping() as keeper:
        asked = rehearsed(asked, given["reclaim_every"])
        kept = typed_here({key: value for key, value in asked.items() if key not in ELSEWHERE})
        bench = LocalSettings(given["store"], given["workers"], None, given["reclaim_every"])
        return work(lambda pipeline: pipeline.train(**kept), bench, keeper, continues=False, as_json=as_json)
