"""Who is told: alarms, budgets and dashboards that go or tell less."""

import re
from collections.abc import Iterator
from typing import Any

from ops.review.compute import ENVIRONMENT, GROUPS
from ops.review.diffs import at, parts
from ops.review.document import Step
from ops.review.models import Finding, Severity
from ops.review.values import clean, is_unknown, number, short, texts
from tidemill.figures import counted

_TELLS = {
    "aws:cloudwatch/metricAlarm:MetricAlarm": "alarm",
    "aws:cloudwatch/compositeAlarm:CompositeAlarm": "alarm",
    "aws:cloudwatch/eventRule:EventRule": "rule",
    "aws:sns/topic:Topic": "topic",
    "aws:sns/topicSubscription:TopicSubscription": "subscription",
    "gcp:monitoring/alertPolicy:AlertPolicy": "alert policy",
    "gcp:monitoring/notificationChannel:NotificationChannel": "notification channel",
}
_FEEDS = ("aws:cloudwatch/logMetricFilter:LogMetricFilter", "gcp:logging/metric:Metric")
_BUDGETS = {"aws:budgets/budget:Budget": "budget", "gcp:billing/budget:Budget": "budget"}
_SCOPE = ("timeUnit", "filterExpression", "costFilters", "budgetFilter.projects", "budgetFilter.calendarPeriod")
"""What a budget counts."""
_SHOWS = {"aws:cloudwatch/dashboard:Dashboard": "dashboard", "gcp:monitoring/dashboard:Dashboard": "dashboard"}
# A property of an alarm, its value while it tells somebody, and what another value means; None stands for any.
_MUTED: tuple[tuple[str, Any, str], ...] = (
    ("actionsEnabled", True, "its actions are off"),
    ("alarmActions", None, "it tells nobody"),
    ("enabled", True, "it is off"),
    ("notificationChannels", None, "it tells nobody"),
    ("state", "ENABLED", "it is off"),
)
# A property of an alarm that tells later, or more rarely, as it grows.
_SLOWER = {
    "threshold": "tells later: its threshold is raised",
    "datapointsToAlarm": "tells later: more looks must agree",
}
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?=[mh]?\b)")


def findings(steps: list[Step]) -> Iterator[Finding]:
    """Findings of the kind `unwatched`."""
    yield from _gone(steps, _TELLS, "high", "alarms")
    yield from _gone(steps, _BUDGETS, "high", "budget")
    yield from _gone(steps, _SHOWS, "medium", "dashboard")
    for step in steps:
        if step.type in _TELLS and step.op in ("update", "replace"):
            yield from _muted(step)
            yield from _moved(step)
            yield from _later(step)
        if step.type in _BUDGETS and step.op in ("update", "replace"):
            yield from _budget(step)
    yield from _unfed(steps)


def _unfed(steps: list[Step]) -> Iterator[Finding]:
    """Metrics that are counted from log lines, which alarms that stay may need."""
    gone = [step for step in steps if step.type in _FEEDS and step.op == "delete"]
    if gone and any(step.after for step in steps if step.type in _TELLS) and not _queue_goes(steps):
        names = tuple(sorted(step.name for step in gone))
        yield Finding("high", "unwatched", "", "", "metrics of alarms are no longer counted: they never tell", names)


def _queue_goes(steps: list[Step]) -> bool:
    return any(step.op == "delete" and (step.type == ENVIRONMENT or step.type in GROUPS) for step in steps)


def _budget(step: Step) -> Iterator[Finding]:
    """A budget that tells later, somebody else, or of another account."""
    limits = [
        number(side.get("limitAmount") or at(side, ("amount", "specifiedAmount", "units")))
        for side in (step.old, step.new)
    ]
    if limits[0] is not None and limits[1] is not None and limits[1] > limits[0]:
        title = f"tells later: the limit {limits[0]:,.0f} becomes {limits[1]:,.0f}"
        yield Finding("high", "unwatched", step.name, step.urn, title)
    lowest = [_lowest(side) for side in (step.old, step.new)]
    if lowest[0] is not None and lowest[1] is not None and lowest[1] > lowest[0]:
        title = f"tells later: first at {lowest[1]:g} %, was {lowest[0]:g} %"
        yield Finding("high", "unwatched", step.name, step.urn, title)
    for path in _SCOPE:
        was, is_ = at(step.old, parts(path)), at(step.new, parts(path))
        if was and was != is_ and not is_unknown(is_):
            title = f"watches other costs than before: {path} changes"
            yield Finding(
                "medium",
                "unwatched",
                step.name,
                step.urn,
                title,
                (f"was {short(clean(was))}", f"is {short(clean(is_))}"),
            )
    accounts = [side.get("billingAccount") for side in (step.old, step.new)]
    if accounts[0] != accounts[1]:
        title = f"watches another billing account: {accounts[1]}, was {accounts[0]}"
        yield Finding("high", "unwatched", step.name, step.urn, title)
    told, now = (_told(side) for side in (step.old, step.new))
    if gone := sorted(told - now):
        rest = ", ".join(sorted(now - told)) or "nobody new"
        yield Finding("medium", "unwatched", step.name, step.urn, f"no longer tells {', '.join(gone)}; tells {rest}")
    notices = [len(_dicts(side.get("notifications") or side.get("thresholdRules"))) for side in (step.old, step.new)]
    if notices[1] < notices[0]:
        title = f"tells more rarely: {counted(notices[1], 'notice')}, was {notices[0]}"
        yield Finding("high", "unwatched", step.name, step.urn, title)


def _lowest(inputs: dict[str, Any]) -> float | None:
    """The share of the limit, in percent, at which a budget tells first."""
    percents = [number(each.get("threshold")) for each in _dicts(inputs.get("notifications"))]
    shares = [number(each.get("thresholdPercent")) for each in _dicts(inputs.get("thresholdRules"))]
    known = [*(each for each in percents if each), *(100 * each for each in shares if each)]
    return min(known, default=None)


def _told(inputs: dict[str, Any]) -> set[str]:
    """Whom a budget tells."""
    keys = ("subscriberEmailAddresses", "subscriberSnsTopicArns")
    lists = [each.get(key) for each in _dicts(inputs.get("notifications")) for key in keys]
    return {each for one in lists for each in texts(one) if not is_unknown(each)}


def _gone(steps: list[Step], kinds: dict[str, str], severity: Severity, whole: str) -> Iterator[Finding]:
    gone = [step for step in steps if step.op == "delete" and step.type in kinds]
    if not gone:
        return
    names = tuple(f"{kinds[step.type]} {step.name}" for step in sorted(gone, key=lambda step: step.name))
    if not any(step.after for step in steps if step.type in kinds):
        title = f"nothing of the stack's {whole} is left: {counted(len(gone), 'resource')} deleted"
        yield Finding(severity, "unwatched", "", "", title, names)
        return
    # With a queue go the alarms about it.
    queue = _queue_goes(steps)
    title = f"some of the stack's {whole} go: {counted(len(gone), 'resource')} deleted"
    yield Finding("low" if queue else "medium", "unwatched", "", "", title, names)


def _muted(step: Step) -> Iterator[Finding]:
    for key, wanted, means in _MUTED:
        old, new = at(step.old, (key,)), at(step.new, (key,))
        told = bool(old) if wanted is None else old in (wanted, None)
        tells = bool(new) if wanted is None else new in (wanted, None)
        if told and not tells and not is_unknown(new):
            yield Finding("high", "unwatched", step.name, step.urn, f"no longer tells anybody: {means}")


def _moved(step: Step) -> Iterator[Finding]:
    """An alarm that tells others than before."""
    for key in ("alarmActions", "notificationChannels"):
        told, now = ({*texts(side.get(key))} for side in (step.old, step.new))
        if (gone := sorted(told - now)) and now and not any(map(is_unknown, now)):
            rest = ", ".join(sorted(now - told)) or "nobody new"
            yield Finding(
                "medium", "unwatched", step.name, step.urn, f"no longer tells {', '.join(gone)}; tells {rest}"
            )


def _later(step: Step) -> Iterator[Finding]:
    """An alarm that tells later or more rarely than before, or no longer says that it is over."""
    for key, text in _SLOWER.items():
        old, new = at(step.old, (key,)), at(step.new, (key,))
        if isinstance(old, int | float) and isinstance(new, int | float) and new > old:
            yield Finding("medium", "unwatched", step.name, step.urn, f"{text}: {old:g} becomes {new:g}")
    yield from _otherwise(step)
    if at(step.old, ("okActions",)) and not at(step.new, ("okActions",)):
        yield Finding("low", "unwatched", step.name, step.urn, "no longer tells when it is over")
    old, new = (_queries(inputs) for inputs in (step.old, step.new))
    for before, after in zip(old, new, strict=False):
        words, numbers = _NUMBER.split(before), [float(each) for each in _NUMBER.findall(before)]
        if words != _NUMBER.split(after):
            yield Finding("low", "unwatched", step.name, step.urn, "its condition changes", (before, after))
        elif any(b > a for a, b in zip(numbers, map(float, _NUMBER.findall(after)), strict=True)):
            title = "tells later: a number of its condition is raised"
            yield Finding("medium", "unwatched", step.name, step.urn, title, (before, after))


def _otherwise(step: Step) -> Iterator[Finding]:
    """An alarm that looks at something else than before, or judges it in another way."""
    old, new = step.old, step.new
    for key, what in (
        ("comparisonOperator", "compares in another way"),
        ("treatMissingData", "judges silence otherwise"),
    ):
        if old.get(key) and old.get(key) != new.get(key) and not is_unknown(new.get(key)):
            title = f"{what}: {new.get(key)}, was {old.get(key)}"
            yield Finding("medium", "unwatched", step.name, step.urn, title)
    names = [{_metric(each) for each in [side, *_dicts(side.get("metricQueries"))]} - {""} for side in (old, new)]
    if names[0] - names[1] and not any(is_unknown(each) for each in names[1]):
        told = tuple(f"{side}: {', '.join(sorted(each))}" for side, each in zip(("was", "is"), names, strict=True))
        yield Finding("medium", "unwatched", step.name, step.urn, "watches another metric", told)


def _metric(query: dict[str, Any]) -> str:
    """The namespace and name of a metric; empty for an expression."""
    metric = query.get("metric") if isinstance(query.get("metric"), dict) else query
    name = (metric or {}).get("metricName")
    return f"{(metric or {}).get('namespace', '')}/{name}" if name else ""


def _queries(inputs: dict[str, Any]) -> list[str]:
    """The conditions of an alert policy in PromQL; of an alarm, the expressions that it compares."""
    conditions = [each.get("conditionPrometheusQueryLanguage") for each in _dicts(inputs.get("conditions"))]
    given = [*_dicts(conditions), *_dicts(inputs.get("metricQueries"))]
    return [text for each in given if isinstance(text := each.get("query") or each.get("expression"), str)]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
