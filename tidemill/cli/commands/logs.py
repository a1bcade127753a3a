"""`tidemill logs`: what a job's items printed."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.kinds import Moment
from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_json, show_origins
from tidemill.visible import json_line, visible

if TYPE_CHECKING:
    from tidemill.client.results.download_logs import LogDownload
    from tidemill.clouds.account import LogLine


ALONE = {"--item": "item", "--grep": "text", "--regex": "regex", "--limit": "limit", "--follow": "follow"}


@click.command()
@job_argument
@click.option("--item", type=click.IntRange(min=0), help="Only this item, by its index.")
@click.option("--grep", "text", metavar="TEXT", help="Only lines that contain TEXT; case matters.")
@click.option("--regex", metavar="RE", help="Only lines in which this regular expression matches.")
@click.option("--failed", is_flag=True, help="Only items that failed.")
@click.option("--group", metavar="ID", help="Only failed items of a group that `tidemill failures` shows.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N lines.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only lines since TIME: 10m, 2h, 3d or 2026-11-21T09:30.")
@click.option("--until", type=Moment(), metavar="TIME", help="Only lines until TIME.")
@click.option(
    "--download",
    "folder",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write files into DIR, one per item; again continues.",
)
@click.option("--by", type=click.Choice(["item", "container"]), default="item", help="What --download makes a file of.")
@click.option("--yes", is_flag=True, help="Download more than 20,000 files by item, too.")
@click.option("--follow", "-f", is_flag=True, help="Keep printing new lines until the job ends.")
@click.option("--times", "-t", is_flag=True, help="Print the time before each line.")
@click.option("--worker", is_flag=True, help="Also lines of the worker itself.")
@common
def command(
    *, job: str, times: bool, folder: str | None, by: str, yes: bool, pipeline: str | None, as_json: bool, **wanted: Any
) -> int:
    """Show what a job's items printed, oldest first."""
    check(folder is not None, **wanted)
    handle, say = load_job(pipeline, job), partial(click.echo, err=True)
    if folder is not None:
        for name in ("item", "text", "regex", "limit", "follow"):
            del wanted[name]
        done = handle.download_logs(folder, by=by, any_number=yes, say=say, **wanted)
        show_download(done, as_json)
        return 0
    if wanted["item"] is None and handle.spec.shared:
        show_origins(handle)
        say("The lines of shared items are in the logs of those jobs; --item shows those of one item.")
    some = False
    for line in handle.logs(**wanted, say=say):
        click.echo(json_line(record(line)) if as_json else plain(line, times))
        some = True
        if wanted["follow"]:
            sys.stdout.flush()
    if not some and not as_json:
        chosen = any(value is not None and value is not False for key, value in wanted.items() if key != "follow")
        say(
            f"The log has no such line of {handle.id} so far." if chosen else f"{handle.id} has printed nothing so far."
        )
    return 0


def check(download: bool, **wanted: Any) -> None:
    """Refuse options that do not go together.

    Raises:
        UsageError: With what to do.
    """
    since, until, follow = (wanted[key] for key in ("since", "until", "follow"))
    if download and (
        wrong := [name for name in ALONE if wanted[ALONE[name]] is not None and wanted[ALONE[name]] is not False]
    ):
        raise click.UsageError(f"--download and {wrong[0]} are given; files hold every line. Leave one out.")
    if follow and until:
        raise click.UsageError("--until and --follow are given; new lines have no end. Leave one out.")
    if (wanted["item"] is not None) + wanted["failed"] + (wanted["group"] is not None) > 1:
        raise click.UsageError("--item, --failed and --group each choose items; give one of them.")
    if follow and wanted["limit"]:
        raise click.UsageError("--limit and --follow are given; new lines have no end. Leave one out.")
    if since and until and since > until:
        first, last = (at.isoformat(timespec="seconds") for at in (since, until))
        raise click.UsageError(f"--since ({first}) is after --until ({last}); swap them.")


def show_download(done: LogDownload, as_json: bool) -> None:
    if as_json:
        show_json(asdict(done))
        return
    before = "; an earlier download was continued" if done.resumed else ""
    click.echo(f"Lines read: {done.lines:,}; files written: {done.files:,}, in {done.folder}{before}")


def record(line: LogLine) -> dict[str, object]:
    """A line as JSON: `at`, `message`, and what the worker wrote around it."""
    at = datetime.fromtimestamp(line.at, UTC).isoformat(timespec="milliseconds")
    # A worker that writes to a file puts the time into its lines itself.
    return {"at": at} | (line.fields or {"message": line.message}) | {"at": at}


def plain(line: LogLine, times: bool = False) -> str:
    """`7.1 stdout: the line` for item 7's first attempt, `setup stderr: the line` for what runs before items,
    `chunk 2 worker: the line` for the worker's own words."""
    fields = line.fields
    at = f"{datetime.fromtimestamp(line.at).isoformat(sep=' ', timespec='milliseconds')} " if times else ""
    if "stream" in fields:
        # Output of an installation belongs to no item.
        who = f"{fields['item']}.{fields.get('attempt', '?')}" if "item" in fields else "setup"
        return f"{at}{who} {fields['stream']}: {visible(line.said)}"
    place = next((f"{key} {fields[key]} " for key in ("item", "chunk") if key in fields), "")
    return f"{at}{place}worker: {visible(line.said)}"
