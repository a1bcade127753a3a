"""`tidemill submit`: send a job."""

from __future__ import annotations

import re

import click

from tidemill.cli.options import common, load
from tidemill.cli.show import show_json

FUNCTION = r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*"


class ProgramAfterDashes(click.Command):
    """Everything after the first `--` is the program's command line and none of our options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the program aside, let click read the rest."""
        if "--" in args:
            at = args.index("--")
            args, ctx.obj = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)


@click.command(
    cls=ProgramAfterDashes,
    options_metavar="[OPTIONS]",
    epilog="Example: tidemill submit --queue cpu --items tiles.txt -- python3 features.py {input} {output}",
)
@click.argument("uris", nargs=-1, metavar="[URI]... -- PROGRAM [ARGUMENT]...")
@click.option("--queue", help="Queue of the pipeline; may be left out when it has only one.")
@click.option("--image", default="default", show_default=True, help="One of the queue's images.")
@click.option("--name", help="Name of the job. The same name and the same items are the same job.")
@click.option(
    "--items",
    metavar="SOURCE",
    help="A list (text with one URI or path a line, .jsonl, .csv), a folder, a prefix or a pattern such as "
    "s3://bucket/prefix/**.jpg; - is standard input.",
)
@click.option("--items-format", metavar="FORMAT", help="text, jsonl or csv. Default: by the name's ending, else text.")
@click.option("--items-column", metavar="NAME", help="CSV: the column that is the item. Default: uri.")
@click.option(
    "--function",
    metavar="MODULE:NAME",
    help="Instead of PROGRAM: a Python function, imported once and called with each item.",
)
@click.option("--shell", is_flag=True, help='PROGRAM is one text that /bin/sh reads; write "$TIDEMILL_INPUT" in it.')
@click.option("--cpus", type=float, help="CPUs of an item. Default: the queue's.")
@click.option("--memory", type=int, metavar="MIB", help="Memory of an item in MiB. Default: the queue's.")
@click.option("--gpus", type=int, help="GPUs of an item. Default: the queue's.")
@click.option("--slots", type=int, default=1, show_default=True, help="Items side by side in one container.")
@click.option("--chunk-size", type=int, help="Items that travel together. Default: chosen, and said.")
@click.option("--item-seconds", type=float, help="How long an item takes, to choose the chunk size by.")
@click.option("--attempts", type=int, default=3, show_default=True, help="Attempts of an item, 1 to 10.")
@click.option("--timeout", type=int, default=3600, show_default=True, metavar="SECONDS", help="Limit of one attempt.")
@click.option("--output", metavar="URI", help="Prefix of the outputs. Default: out/JOB in the job store.")
@click.option("--env", "variables", multiple=True, metavar="KEY=VALUE", help="Variable of the program. Repeatable.")
@click.option("--code", metavar="DIR", help="Folder that travels with the job; its requirements.txt is installed.")
@click.option("--pip-index", metavar="URL", help="Package index for requirements.txt. Default: the image's own.")
@click.option("--wheelhouse", metavar="URI", help="Prefix of a store that holds the wheels for requirements.txt.")
@common
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    uris: tuple[str, ...],
    queue: str | None,
    image: str,
    name: str | None,
    items: str | None,
    items_format: str | None,
    items_column: str | None,
    function: str | None,
    shell: bool,
    cpus: float | None,
    memory: int | None,
    gpus: int | None,
    slots: int,
    chunk_size: int | None,
    item_seconds: float | None,
    attempts: int,
    timeout: int,
    output: str | None,
    variables: tuple[str, ...],
    code: str | None,
    pip_index: str | None,
    wheelhouse: str | None,
    pipeline: str | None,
    as_json: bool,
) -> int:
    """Send a job: PROGRAM runs once for every item.

    {input} in the program's arguments becomes a local copy of the item, {output} a folder whose files are kept; {uri},
    {output_uri} and {index} are for programs that do this themselves. No shell is involved. With --code, {code} is the
    folder on the machine; files of it that PROGRAM names by their relative paths are found there.
    """
    if items is not None and uris:
        raise click.UsageError(f"--items is {items!r} and URIs are given too; give one of the two.")
    program, function = what(ctx.obj or (), shell, function)
    job = load(pipeline).submit(
        program,
        function=function,
        items=list(uris) if items is None else items,
        items_format=items_format,
        items_column=items_column,
        queue=queue,
        image=image,
        name=name,
        cpus=cpus,
        memory_mib=memory,
        gpus=gpus,
        slots=slots,
        chunk_size=chunk_size,
        item_seconds=item_seconds,
        attempts=attempts,
        timeout_seconds=timeout,
        output=output,
        env=environment(variables),
        code=code,
        pip_index=pip_index,
        wheelhouse=wheelhouse,
        say=lambda text: click.echo(text, err=True),
    )
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
        click.echo(f"`tidemill wait {job.id}` watches it.", err=True)
        click.echo(job.id)
    return 0


def what(words: tuple[str, ...], shell: bool, function: str | None = None) -> tuple[list[str] | None, str | None]:
    """What runs for each item: a command, or the name of a function."""
    if function is not None:
        if words or shell:
            raise click.UsageError(f"--function is {function!r} and a program is given too; give one of the two.")
        return None, function
    if not shell:
        is_function = len(words) == 1 and re.fullmatch(FUNCTION, words[0])
        return (None, words[0]) if is_function else (list(words), None)
    if len(words) != 1:
        raise click.UsageError(f"--shell takes one text after --, in quotes; {len(words)} words are given.")
    # Filled in, an item's name would be read as code.
    if inside := re.search(r"\{(input|output|uri|output_uri|index)\}", words[0]):
        raise click.UsageError(
            f'--shell: write "$TIDEMILL_{inside[1].upper()}" in place of {inside[0]}, so that no item\'s name is ever '
            "read as shell code."
        )
    return ["/bin/sh", "-c", words[0]], None


def environment(variables: tuple[str, ...]) -> dict[str, str]:
    """`--env` options as a dict."""
    pairs = [variable.partition("=") for variable in variables]
    for variable, (key, equals, _) in zip(variables, pairs, strict=True):
        if not key or not equals:
            raise click.UsageError(f"--env is {variable!r}; allowed: KEY=VALUE.")
    return {key: value for key, _, value in pairs}
