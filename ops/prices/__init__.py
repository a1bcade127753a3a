"""`python -m ops prices`: show the price table, or refresh it from the clouds."""

import datetime
import fcntl
import shutil
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import chain
from typing import Protocol

import click

from components.rooms import CLOUDS
from ops.clouds import facts
from ops.options import Commands
from ops.prices import pages
from ops.prices.own import set_price
from ops.prices.region import (
    Answer,
    ChangeCount,
    RefusedError,
    Region,
    read,
    refuse_region,
    text,
    today,
    write,
)
from ops.prices.shares import coverage
from tidemill import prices as table
from tidemill.prices.table import impossible


class Source(Protocol):
    """A cloud that is asked for prices."""

    def check(self, parts: Collection[str]) -> str | None:
        """Say what is not asked for; raise `RefusedError` if nothing can be asked."""
        ...

    def regions(self) -> list[str]: ...

    def ask(self, region: str, parts: Collection[str]) -> list[Answer]: ...

    def forget(self, region: str, part: str) -> None:
        """Delete what was kept for a resume of a part."""
        ...


_OLD_DAYS = 365
_FEW = 10
"""Values that any answer may lack."""
_PARTS = {cloud: facts(cloud).PRICE_PARTS for cloud in CLOUDS}
_CLOUD = click.option("--cloud", type=click.Choice(CLOUDS), required=True, help="The cloud.")


@click.group(cls=Commands)
def prices() -> None:
    """The price table that estimates are made from."""


@prices.command()
@_CLOUD
@click.option("--region", help="Print all that the table has of this region, as JSON.")
def show(cloud: str, region: str | None) -> None:
    """Show what the table has of each region, and from which date."""
    if region is not None:
        if region not in table.covered(cloud):
            raise click.UsageError(f"the table has no {region}; it has {', '.join(table.covered(cloud))}.")
        click.echo(text(read(cloud, region)), nl=False)
        return
    for name in table.covered(cloud):
        held = read(cloud, name)
        counts = {part: len(next(v for v in row.values() if isinstance(v, dict))) for part, row in held.parts.items()}
        parts = [f"{count} {part} ({_aged(held.dated(part))})" for part, count in counts.items()]
        dates = sorted({row["as_of"] for row in held.services.values()})
        parts += [f"{len(held.services)} services ({dates[0]} to {dates[-1]})"] if dates else []
        lacking = ", ".join(part for part in _PARTS[cloud] if part not in {*counts, *(["services"] if dates else [])})
        click.echo(f"{name}: {', '.join(parts)}{f'; no {lacking}' if lacking else ''}")


def _aged(day: str | None) -> str:
    """A day, marked if it is more than a year ago."""
    old = day is not None and (today() - datetime.date.fromisoformat(day)).days > _OLD_DAYS
    return f"{day}, more than a year ago" if old else str(day)


@prices.command()
@click.option("--cloud", type=click.Choice(CLOUDS), help="The cloud. Default: each.")
@click.option("--region", "wanted", multiple=True, help="A region; repeat. Default: every commercial region.")
@click.option(
    "--part",
    "chosen",
    multiple=True,
    type=click.Choice([*dict.fromkeys(chain(*_PARTS.values()))]),
    help="A part of the table; repeat. Default: all that the cloud tells.",
)
@click.option("--again", is_flag=True, help="Ask again for what the table has from today.")
@click.option("--fewer", is_flag=True, help="Take an answer that lacks more than a tenth of what the table has.")
def refresh(cloud: str | None, wanted: tuple[str, ...], chosen: tuple[str, ...], again: bool, fewer: bool) -> None:
    """Ask the clouds for the prices of its regions and write them into the table of this checkout.

    An interrupted refresh continues: parts from today and pages of the last hours are not asked for again. What the
    cloud refuses to tell keeps its old price and date and is reported. Exits 3 if something was refused.
    """
    if wanted and not cloud:
        raise click.UsageError("--region needs --cloud: a region belongs to one.")
    for name in wanted:
        refuse_region(str(cloud), name)
    parts = {
        name: [part for part in _PARTS[name] if not chosen or part in chosen] for name in ([cloud] if cloud else CLOUDS)
    }
    if not any(parts.values()):
        told = "; ".join(f"{name} tells {', '.join(_PARTS[name])}" for name in parts)
        raise click.UsageError(f"{', '.join(parts)} does not tell {', '.join(chosen)}; {told}.")
    with _alone():
        whole = [_cloud(name, wanted, asked, again, fewer) for name, asked in parts.items() if asked]
    if not all(whole):
        sys.exit(3)


def _cloud(cloud: str, wanted: tuple[str, ...], parts: Sequence[str], again: bool, fewer: bool) -> bool:
    """Refresh a cloud; False if something was refused."""
    if again:
        _forget(cloud)
    source = _source(cloud)
    try:
        if note := source.check(parts):
            click.echo(note, err=True)
    except RefusedError as error:
        click.echo(f"{cloud} could not be asked, and no price changes: {error}", err=True)
        return False
    names = wanted or tuple(source.regions())
    refused = [name for name in names if not _region(source, read(cloud, name), parts, again, fewer)]
    if refused:
        click.echo(
            f"Incomplete: {', '.join(refused)} ({len(refused)} of {len(names)} regions). The same command continues.",
            err=True,
        )
        return False
    _forget(cloud)
    return True


def _source(cloud: str) -> Source:
    # The other cloud's client need not be installed.
    return import_module(f"ops.prices.{cloud}").PRICES()


def _region(source: Source, region: Region, parts: Sequence[str], again: bool, fewer: bool) -> bool:
    """Refresh a region part by part; False if a part was refused."""
    day = today().isoformat()
    old = [part for part in parts if again or region.dated(part) != day]
    if not old:
        click.echo(f"{region.name}: all of it is from today")
    whole = True
    for part in old:
        for told in source.ask(region.name, [part]):
            answer = _taken(region, told, fewer)
            _say(region, answer, region.take(answer))
            whole &= answer.refused is None
            if answer.refused is None and answer.found:
                write(region)
                source.forget(region.name, part)
    return whole


def _taken(region: Region, answer: Answer, fewer: bool) -> Answer:
    """An answer, or its refusal: neither a price of 0 nor half of a list takes the place of what is known."""
    gone, known = region.loses(answer)
    if answer.refused is not None or not answer.found:
        return answer
    if found := impossible(answer.part, answer.found):
        return replace(answer, refused=f"it has {found}")
    if fewer or gone <= max(_FEW, known // 10):
        return answer
    reason = f"it lacks {gone} of the {known} values of {region.dated(answer.part)}; `--fewer` takes it all the same"
    return replace(answer, refused=reason)


def _say(region: Region, answer: Answer, change: ChangeCount) -> None:
    if answer.refused is not None:
        click.echo(f"{region.name}: {answer.part} could not be read and stays unchanged: {answer.refused}", err=True)
        return
    changes = {"new": change.new, "changed": change.other, "gone": change.gone}
    counts = ", ".join(f"{count} {word}" for word, count in changes.items() if count) or "none changed"
    click.echo(f"{region.name}: {len(answer.found)} {answer.part} of {answer.as_of} ({counts})")
    if missing := [name for name in answer.missing if not region.lacks(name)]:
        names = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if missing[5:] else "")
        click.echo(f"{region.name}: {answer.part}: unknown for {names}", err=True)


def _forget(cloud: str) -> None:
    shutil.rmtree(pages.FOLDER / cloud, ignore_errors=True)


@contextmanager
def _alone() -> Iterator[None]:
    """One refresh at a time: two would mix their pages."""
    pages.FOLDER.mkdir(parents=True, exist_ok=True)
    with (pages.FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise click.UsageError("another refresh is running in this checkout; wait for its end.") from None
        yield


prices.add_command(set_price)
prices.add_command(coverage)

__all__ = ["Region", "prices"]
