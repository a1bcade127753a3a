"""A pipeline's dashboard, saved queries and alarms on AWS."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from ...base import as_args, token
from ...config import Monitoring, part
from ...outputs import json_of
from ..account import account_of
from ..checks import check_monitoring
from ..policy import Statement, document
from . import dashboard
from .alarms import Alarms
from .metrics import NAMESPACE
from .queries import QUERIES

_KEYS = (
    "dashboard",
    "queries",
    "notify",
    "topic",
    "owner",
    "failed_percent",
    "growing_hours",
    "full_hours",
    "reclaimed_percent",
    "no_machine_minutes",
    "stalled_minutes",
)


@dataclass
class AwsMonitoringArgs:
    """Arguments of `AwsMonitoring`."""

    pipeline: str
    """The pipeline's name, `<team>-<environment>`; the dashboard has it."""
    log_group: pulumi.Input[str]
    """Name of the workers' log group."""
    queues: Mapping[str, pulumi.Input[str]]
    """ARNs of the job queues, by the name that users type."""
    clusters: Mapping[str, list[pulumi.Input[str]]] = field(default_factory=dict)
    """Names of the ECS clusters of each queue's machines, by the queue's name."""
    market_queues: Mapping[str, Mapping[str, pulumi.Input[str]]] = field(default_factory=dict)
    """ARNs of the job queues of jobs that ask for one market, by the queue's name and the market."""
    dashboard: bool = False
    """Make a dashboard."""
    queries: bool = False
    """Save queries of the log group."""
    notify: list[str] = field(default_factory=list)
    """E-mail addresses that alarms tell, up to 10; not together with `topic`."""
    topic: pulumi.Input[str] | None = None
    """ARN of an existing SNS topic that alarms tell; its policy must let CloudWatch and EventBridge publish."""
    owner: str | None = None
    """Who owns the queues, for the messages; None for the pipeline's name."""
    failed_percent: int = 20
    """Failed items among those that ended within 15 minutes, in percent, above which an alarm tells."""
    growing_hours: int | None = 6
    """Tell when the backlog has grown in each of so many hours; None for no such alarm."""
    full_hours: int | None = 6
    """Tell when chunks that start have waited this long and the backlog does not shrink; None for no such alarm."""
    reclaimed_percent: int | None = 30
    """Chunks that lose their machine, in percent, above which an alarm tells after three hours; None for none."""
    no_machine_minutes: int | None = None
    """Tell when work has waited this long and no machine runs any; None for no such alarm."""
    stalled_minutes: int | None = None
    """Tell when machines are reserved but no item ends for this long; None for no such alarm."""
    metric_namespace: str = NAMESPACE
    """CloudWatch namespace of the workers' metrics."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsMonitoring(pulumi.ComponentResource):
    """A dashboard, saved queries, and alarms by e-mail or to a topic.

    Makes: with `dashboard` a dashboard. With `queries` three queries of Logs Insights. With `notify` an SNS topic, its
    policy and a subscription per address, which AWS asks to confirm; with `notify` or `topic`, per queue, alarms of
    failed items, of workers' errors, of a growing backlog, of a queue at its cap and of many reclaims, and rules for
    all queues that tell what Batch says of a blocked queue and of an array that it has given up; with
    `no_machine_minutes` an alarm of work that no machine runs, with `stalled_minutes` one of machines that get nothing
    done. Alarms tell when they are over, too.

    Costs while idle: nothing without the keys; a dashboard $3 per month after the account's third; an alarm $0.10 per
    metric and month after the account's tenth: $1.00 per queue, for one rung with `no_machine_minutes` $0.40 and with
    `stalled_minutes` $0.20 more; $0.60 per market of `market_queues`, with `no_machine_minutes` $0.40 more.

    Example:
        ```python
        args = AwsMonitoringArgs(
            pipeline="vision-dev",
            log_group="vision-dev-logs",
            queues={"cpu": "arn:aws:batch:us-west-2:123456789012:job-queue/vision-dev-cpu"},
            notify=["ml-oncall@example.com"],
        )
        monitoring = AwsMonitoring("vision-dev-monitoring", args)
        pulumi.export("alarms", monitoring.topic)
        ```
    """

    topic: pulumi.Output[str] | None
    """ARN of the topic that alarms tell; None where no one is told."""
    dashboard: pulumi.Output[str] | None
    """Name of the dashboard; None without one."""

    def __init__(self, name: str, args: AwsMonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsMonitoringArgs, args)
        super().__init__(token(AwsMonitoring), name, None, opts)
        settings = part(Monitoring, {key: getattr(args, key) for key in _KEYS}, "monitoring")
        check_monitoring(settings)
        self._name, self._args, self._settings = name, args, settings
        self._account = account_of(self)
        self._child = pulumi.ResourceOptions(parent=self)
        self.topic = pulumi.Output.from_input(settings.topic) if settings.topic else None
        if settings.notify:
            self.topic = self._topic(settings.notify)
        alarms = [] if self.topic is None else self._alarms(self.topic)
        self.dashboard = self._dashboard(alarms) if settings.dashboard else None
        if settings.queries:
            self._queries()
        self.register_outputs({"topic": self.topic, "dashboard": self.dashboard})

    def _topic(self, addresses: Sequence[str]) -> pulumi.Output[str]:
        """The topic. It has no key: AWS's own admits neither CloudWatch nor EventBridge, and one of the stack's costs
        $1 per month. Messages have names of jobs and queues and the cloud's words, never an item's.

        Source: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html#compatibility-with-aws-services
        """
        topic = aws.sns.Topic(f"{self._name}-alarms", tags=self._args.tags, opts=self._child)
        aws.sns.TopicPolicy(
            f"{self._name}-alarms-policy", arn=topic.arn, policy=document(self._publish(topic.arn)), opts=self._child
        )
        for name, address in _names(addresses).items():
            aws.sns.TopicSubscription(
                f"{self._name}-{name}",
                topic=topic.arn,
                protocol="email",
                endpoint=address,
                opts=self._child,
            )
        return topic.arn

    def _publish(self, topic: pulumi.Input[str]) -> list[Statement]:
        """Let CloudWatch publish for this component's alarms, whose names begin with the component's, and EventBridge.

        EventBridge gives SNS nothing that a condition could look at: with one, no event would arrive.
        Source: https://docs.aws.amazon.com/sns/latest/dg/sns-access-policy-use-cases.html and
        https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html#eb-sns-permissions
        """
        alarms = {
            "ArnLike": {"aws:SourceArn": self._account.arn("cloudwatch", f"alarm:{self._name}-*")},
            "StringEquals": {"aws:SourceAccount": self._account.number},
        }
        allowed = {"Effect": "Allow", "Action": "sns:Publish", "Resource": topic}
        return [
            {**allowed, "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Condition": alarms},
            {**allowed, "Principal": {"Service": "events.amazonaws.com"}},
        ]

    def _alarms(self, topic: pulumi.Input[str]) -> list[pulumi.Output[str]]:
        args = self._args
        owner = self._settings.owner or args.pipeline
        alarms = Alarms(topic, args.metric_namespace, owner, args.tags, self._child)
        arns = [arn for queue in args.queues for arn in self._alarms_of(queue, alarms)]
        queues = [*args.queues.values(), *(arn for each in args.market_queues.values() for arn in each.values())]
        alarms.blocked(f"{self._name}-stuck", queues)
        alarms.ended(f"{self._name}-ended", queues)
        return arns

    def _alarms_of(self, queue: str, alarms: Alarms) -> Iterator[pulumi.Output[str]]:
        """ARNs of a queue's alarms."""
        wanted, name, job_queues = self._settings, f"{self._name}-{queue}", self._job_queues(queue)
        clusters = self._args.clusters.get(queue, [])
        yield alarms.failed(f"{name}-failed", queue, wanted.failed_percent)
        yield alarms.errors(f"{name}-errors", queue)
        if wanted.reclaimed_percent:
            yield alarms.reclaims(f"{name}-reclaims", queue, [*job_queues.values()], wanted.reclaimed_percent)
        if wanted.stalled_minutes:
            yield alarms.stalled(f"{name}-stalled", queue, clusters, wanted.stalled_minutes)
        for market, job_queue in job_queues.items():
            own, called = (f"{name}-market-{market}", f"{queue} ({market})") if market else (name, queue)
            if wanted.growing_hours:
                yield alarms.growing(f"{own}-growing", called, job_queue, wanted.growing_hours)
            if wanted.full_hours:
                yield alarms.full(f"{own}-full", called, job_queue, wanted.full_hours)
            if wanted.no_machine_minutes:
                yield alarms.no_machine(f"{own}-no-machine", called, job_queue, clusters, wanted.no_machine_minutes)

    def _job_queues(self, queue: str) -> dict[str, pulumi.Output[str]]:
        """Batch's names of a queue, by which its metrics go: its own, and those of markets."""
        markets = self._args.market_queues.get(queue, {})
        arns = {"": self._args.queues[queue], **{each.replace("_", "-"): arn for each, arn in markets.items()}}
        return {
            market: pulumi.Output.from_input(arn).apply(lambda arn: arn.rpartition("/")[2])
            for market, arn in arns.items()
        }

    def _queries(self) -> None:
        for title, query in QUERIES.items():
            aws.cloudwatch.QueryDefinition(
                f"{self._name}-{title.partition(' (')[0].replace(' ', '-')}",
                name=f"{self._args.pipeline}/{title}",
                query_string=query,
                log_group_names=[self._args.log_group],
                opts=self._child,
            )

    def _dashboard(self, alarms: Sequence[pulumi.Input[str]]) -> pulumi.Output[str]:
        args = self._args
        made = aws.cloudwatch.Dashboard(
            f"{self._name}-dashboard",
            # People look for it by its name.
            dashboard_name=args.pipeline,
            dashboard_body=json_of(
                pulumi.Output.all(
                    region=self._account.region,
                    log_group=args.log_group,
                    clusters={queue: args.clusters.get(queue, []) for queue in args.queues},
                    job_queues={queue: self._job_queues(queue) for queue in args.queues},
                    alarms=list(alarms),
                ).apply(lambda values: dashboard.body(args.pipeline, namespace=args.metric_namespace, **values))
            ),
            opts=self._child,
        )
        return made.dashboard_name


def _names(addresses: Sequence[str]) -> dict[str, str]:
    """Addresses by names for their resources; a name that two would share ends with a digest for the second."""
    named: dict[str, str] = {}
    for address in sorted(addresses):
        name = re.sub(r"[^a-z0-9]+", "-", address.lower())
        digest = hashlib.sha256(address.encode()).hexdigest()[:7]
        named[f"{name}-{digest}" if name in named else name] = address
    return named
