"""Alarms of CloudWatch, which moto stores and never evaluates: metric math, the state that follows, and who is told.

Known is the part of metric math that Tidemill writes: numbers, `+ - * /`, comparisons, AND, OR, IF, FILL with a number,
RUNNING_SUM. Sources: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html and
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/AlarmThatSendsEmail.html
"""

import ast
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from moto.cloudwatch.models import Alarm, MetricAggregatedDatum, MetricDatum, cloudwatch_backends
from moto.sns.models import sns_backends

from localcloud.aws import accounts
from localcloud.aws.accounts import ACCOUNT
from localcloud.aws.batch.metrics import DIMENSION, NAMESPACE, Minute, metrics
from localcloud.aws.iam import DIRECT, Query, refusal

Series = list[float | None]
MOST_METRICS = 10
"""Metrics of an alarm. Source:
https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDataQuery.html"""
_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
}
_COMPARED = {
    "GreaterThanThreshold": operator.gt,
    "GreaterThanOrEqualToThreshold": operator.ge,
    "LessThanThreshold": operator.lt,
    "LessThanOrEqualToThreshold": operator.le,
}


def evaluate(region: str, now: float) -> None:
    """Look at all alarms of a region as CloudWatch does each minute, at a time of the epoch."""
    with accounts.moto.lock:
        for alarm in list(cloudwatch_backends[ACCOUNT][region].alarms.values()):
            if alarm.rule is None:
                _look(alarm, region, now)


def _look(alarm: Alarm, region: str, now: float) -> None:
    looks = int(alarm.evaluation_periods)
    wanted = int(alarm.datapoints_to_alarm or looks)
    values = _shown(alarm, region, now, looks)
    compared = _COMPARED[alarm.comparison_operator]
    beyond = sum(value is not None and compared(value, float(alarm.threshold)) for value in values)
    missing = sum(value is None for value in values)
    after = state(alarm.state_value, beyond, missing, wanted, alarm.treat_missing_data or "missing")
    before = alarm.state_value
    if after == before:
        return
    alarm.update_state(f"{beyond} of {looks} datapoints were beyond the threshold", "{}", after)
    if alarm.actions_enabled:
        for arn in {"ALARM": alarm.alarm_actions, "OK": alarm.ok_actions}.get(after) or []:
            _tell(alarm, arn, before, region, now)


def state(before: str, beyond: int, missing: int, wanted: int, treat: str) -> str:
    """The state that follows from so many datapoints; `treat` is the alarm's word on missing ones."""
    if treat == "breaching":
        beyond, missing = beyond + missing, 0
    elif treat == "notBreaching":
        missing = 0
    if beyond >= wanted:
        return "ALARM"
    if beyond + missing < wanted:
        return "OK"
    return before if treat == "ignore" else "INSUFFICIENT_DATA"


def _shown(alarm: Alarm, region: str, now: float, looks: int) -> Series:
    """The alarm's datapoints, the oldest first."""
    queries = alarm.metric_data_queries
    read = [query for query in queries if query.metric_stat]
    assert len(read) <= MOST_METRICS, f"{alarm.name} reads {len(read)} metrics, CloudWatch takes {MOST_METRICS}"
    period = max(int(query.metric_stat.period) for query in read if query.metric_stat)
    named: dict[str, Series] = {}
    for query in read:
        assert query.metric_stat
        metric = query.metric_stat.metric
        dimensions = {str(each.name): str(each.value) for each in metric.dimensions}
        points = list(_points(region, metric.namespace, metric.metric_name, dimensions))
        named[query.id] = [
            _statistic(query.metric_stat.stat, [each for at, each in points if start <= at < start + period])
            for start in (now - period * number for number in range(looks, 0, -1))
        ]
    [shown] = [query for query in queries if str(query.return_data).lower() == "true" or len(queries) == 1]
    return compute(shown.expression, named, looks) if shown.expression else named[shown.id]


def _points(region: str, namespace: str, name: str, dimensions: Mapping[str, str]) -> Iterator[tuple[float, Minute]]:
    if namespace == NAMESPACE:
        yield from metrics.of(region, dimensions[DIMENSION], name)
    for datum in cloudwatch_backends[ACCOUNT][region].metric_data:
        if (datum.namespace, datum.name) == (namespace, name) and dimensions == {
            each.name: each.value for each in datum.dimensions
        }:
            at = datum.timestamp.replace(tzinfo=UTC).timestamp() if isinstance(datum.timestamp, datetime) else 0.0
            if isinstance(datum, MetricDatum):
                yield at, Minute(1, datum.value, datum.value, datum.value)
            elif isinstance(datum, MetricAggregatedDatum):
                yield at, Minute(int(datum.sample_count), datum.sum, datum.min, datum.max)


def _statistic(name: str, values: Sequence[Minute]) -> float | None:
    if not values:
        return None
    total, count = sum(each.total for each in values), sum(each.count for each in values)
    known = {
        "Sum": total,
        "Average": total / count,
        "Maximum": max(each.most for each in values),
        "Minimum": min(each.least for each in values),
        "SampleCount": float(count),
    }
    return known[name]


def compute(expression: str, named: Mapping[str, Series], looks: int) -> Series:
    """Metric math over series of as many values.

    Raises:
        ValueError: The expression has a part that is not known here.
    """
    text = re.sub(r"\bAND\b", "and", re.sub(r"\bOR\b", "or", re.sub(r"\bIF\b", "IF_", expression)))
    return _value(ast.parse(text, mode="eval").body, named, looks)


def _value(node: ast.expr, named: Mapping[str, Series], looks: int) -> Series:
    def of(part: ast.expr) -> Series:
        return _value(part, named, looks)

    value: Series
    match node:
        case ast.Constant(value=int() | float() as number):
            value = [float(number)] * looks
        case ast.Name(id=name):
            value = named[name]
        case ast.BinOp(op=ast.Div()):
            value = [_divided(*pair) for pair in zip(of(node.left), of(node.right), strict=True)]
        case ast.BinOp():
            value = _both(_OPERATORS[type(node.op)], of(node.left), of(node.right))
        case ast.Compare(ops=[compared], comparators=[right]):
            value = _both(_OPERATORS[type(compared)], of(node.left), of(right))
        case ast.BoolOp(op=ast.And(), values=[left, right]):
            value = _both(lambda a, b: bool(a and b), of(left), of(right))
        case ast.BoolOp(op=ast.Or(), values=[left, right]):
            value = _both(lambda a, b: bool(a or b), of(left), of(right))
        case ast.Call(func=ast.Name(id=name)):
            value = _called(name, [of(each) for each in node.args], looks)
        case _:
            raise ValueError(f"localcloud's CloudWatch does not know {ast.unparse(node)}")
    return value


def _called(name: str, given: Sequence[Series], looks: int) -> Series:
    if name == "FILL":
        return [fill if value is None else value for value, fill in zip(*given, strict=True)]
    if name == "RUNNING_SUM":
        return list(accumulate(value or 0.0 for value in given[0]))
    if name == "IF_":
        wanted, then, *other = given
        otherwise: Series = other[0] if other else [None] * looks
        return [None if test is None else a if test else b for test, a, b in zip(wanted, then, otherwise, strict=True)]
    raise ValueError(f"localcloud's CloudWatch does not know the function {name}")


def _both(how: Callable[[Any, Any], Any], left: Series, right: Series) -> Series:
    return [None if a is None or b is None else float(how(a, b)) for a, b in zip(left, right, strict=True)]


def _divided(left: float | None, right: float | None) -> float | None:
    return None if left is None or not right else left / right


def _tell(alarm: Alarm, arn: str, before: str, region: str, now: float) -> None:
    """Publish what CloudWatch does, if the topic lets it."""
    topic = sns_backends[ACCOUNT][region].topics.get(arn)
    context = {"aws:sourcearn": alarm.alarm_arn, "aws:sourceaccount": ACCOUNT}
    query = Query("sns:Publish", arn, {"Service:cloudwatch.amazonaws.com": DIRECT}, context)
    if topic is None or refusal(query, [], json.loads(topic.policy), resource_decides=True) is not None:
        return
    message = {
        "AlarmName": alarm.name,
        "AlarmDescription": alarm.description,
        "AWSAccountId": ACCOUNT,
        "NewStateValue": alarm.state_value,
        "NewStateReason": alarm.state_reason,
        "OldStateValue": before,
        "StateChangeTime": datetime.fromtimestamp(now, UTC).isoformat(),
        "AlarmArn": alarm.alarm_arn,
    }
    topic.publish(json.dumps(message), subject=f'{alarm.state_value}: "{alarm.name}"')
