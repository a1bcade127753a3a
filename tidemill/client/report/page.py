"""A report as one HTML page: no script, no network, nothing that a name or a message could bring in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidemill import clouds
from tidemill.client.report.html import number, percent, seconds, tiles, usd
from tidemill.client.report.model import JobReport
from tidemill.client.report.panels import panels
from tidemill.client.report.style import HATCH, STYLE
from tidemill.client.report.svg import escaped
from tidemill.figures import counted, origins_words

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Even a mistake in the escaping runs nothing and loads nothing."""
LEFT_OUT = "(left out)"


def redacted(report: JobReport) -> JobReport:
    """A report without commands, names of people, and what programs said: one that can be passed on."""
    groups = [replace(group, message=LEFT_OUT) for group in report.failing.groups]
    failing = replace(report.failing, groups=groups)
    curves = [replace(one, curves=[replace(curve, uri=LEFT_OUT) for curve in one.curves]) for one in report.metrics]
    return replace(report, metrics=curves, command=[LEFT_OUT], user=LEFT_OUT, note=None, headline=None, failing=failing)


def page_of(report: JobReport) -> str:
    """The page."""
    advice = "".join(f"<li>{_flag(one.flag)}{escaped(one.text)}</li>" for one in report.advice)
    suggested = f'<section class="wide"><h2>Next time</h2><ol class="advice">{advice}</ol></section>' if advice else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escaped(report.job)}: {escaped(report.state)}</title><style>{STYLE}</style></head>"
        f"<body>{HATCH}<main>{_head(report)}{''.join(_remarks(report))}{tiles(_facts(report))}"
        f'<div class="panels">{suggested}{"".join(panels(report))}</div></main></body></html>\n'
    )


def _flag(flag: str) -> str:
    return f"<code>{escaped(flag)}</code> " if flag else ""


def _head(report: JobReport) -> str:
    ended = report.ended_at or f"{report.as_of}, when this was written"
    return (
        f'<h1>{escaped(report.job)} <span class="state {escaped(report.state)}">{escaped(report.state)}</span></h1>'
        f'<p class="soft">Queue {escaped(report.queue)}, submitted by {escaped(report.user)}.<br>'
        f"{escaped(_moment(report.created_at))} to {escaped(_moment(ended))} (UTC)</p>"
    )


def _moment(text: str) -> str:
    return text.replace("T", " ").replace("+00:00", "")


def _remarks(report: JobReport) -> Iterator[str]:
    rows: list[str] = []
    if report.ended_at is None and report.remaining:
        done = percent(report.items - report.remaining, report.items)
        rows.append(f"The job has not ended: this is as of {_moment(report.as_of)} UTC, with {done} of its items done.")
    if report.emulated:
        record = clouds.find(report.cloud)
        cloud = record.title if record else report.cloud
        rows.append(f"localcloud ran this job on one machine and imitated {cloud}. Nothing was paid.")
    elif report.cloud == "local":
        rows.append("This job ran on one machine, without a cloud and without cost.")
    if report.origins:
        mixed = origins_words(report.origins, report.items)
        rows.append(f"{report.items:,} items: {mixed}. Times, machines and costs are of this job.")
    rows += [text for text in (report.headline, report.note) if text]
    yield from (f'<p class="remark">{escaped(text)}</p>' for text in rows)


def _facts(report: JobReport) -> dict[str, tuple[str, str]]:
    done = report.succeeded + report.failed
    rate = report.executions / report.wall_seconds if report.wall_seconds else 0.0
    speed = f"{number(rate)} per second" if rate >= 1 else f"{number(60 * rate)} per minute"
    facts = {
        "Items done": (f"{done:,}", f"of {report.items:,}"),
        "Failed": (f"{report.failed:,}", percent(report.failed, report.items)),
        "Wall time": (seconds(report.wall_seconds), f"{speed} on average"),
        "Reclaims": (f"{report.reclaims:,}", f"in {counted(report.chunks_done, 'finished chunk')}"),
    }
    if report.first_item_seconds is not None:
        facts["First item"] = (seconds(report.first_item_seconds), "after the job could start")
    if cost := report.cost:
        paid = "list prices, not paid" if cost.emulated else "machines and their disks"
        facts["Cost in USD"] = (usd(cost.low, cost.high), paid)
        if cost.on_demand and cost.high and cost.on_demand > cost.high:
            facts["Saved on Spot"] = (
                percent(cost.on_demand - (cost.low + cost.high) / 2, cost.on_demand),
                f"of {usd(cost.on_demand)} USD On-Demand",
            )
    return facts
