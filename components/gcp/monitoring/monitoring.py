"""A pipeline's dashboard, saved queries and alarms on GCP."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ...base import as_args, token
from ...config import Monitoring, part
from ...notices import Notice, Severity
from ..checks import check_monitoring
from ..logs import FAILED_ITEMS
from ..member import person
from ..project import Project
from . import dashboard
from .line_metrics import (
    MINUTES,
    failed_query,
    full_query,
    growing_query,
    reclaimed_query,
    silent_query,
)

SEVERITIES: dict[Severity, str] = {"high": "CRITICAL", "medium": "ERROR", "low": "WARNING"}
"""Cloud Monitoring's names of our severities."""
NOTIFY_SECONDS = 1800
"""Least seconds between two notices of an alert on log lines; the reconciler says a trouble as often."""

QUERIES = {
    "failed items": FAILED_ITEMS,
    "workers in trouble": "severity >= WARNING",
    "one job (put its id in)": 'jsonPayload.job = "NAME-1a2b3c4d"',
}
"""By the end of the query's name."""

_KEYS = (
    "dashboard",
    "queries",
    "notify",
    "channels",
    "owner",
    "failed_percent",
    "growing_hours",
    "full_hours",
    "reclaimed_percent",
)


@dataclass
class GcpMonitoringArgs:
    """Arguments of `GcpMonitoring`."""

    pipeline: str
    """The pipeline's name, `<team>-<environment>`; the dashboard has it."""
    log: pulumi.Input[str]
    """The log that workers write to: ``projects/<project>/logs/<id>``."""
    metrics: Mapping[str, pulumi.Input[str]]
    """Names of the log-based metrics of the workers' lines (`GcpLogs.counted`)."""
    function: pulumi.Input[str]
    """Name of the reconciler's function."""
    subscriptions: Mapping[str, pulumi.Input[str]]
    """Short names of the subscriptions that workers pull from, by queue."""
    fleets: Sequence[pulumi.Input[dict[str, Any]]] = field(default_factory=list)
    """The `fleet` of every `GcpWorkerPool`, whose groups and machines the dashboard shows."""
    dashboard: bool = False
    """Make a dashboard."""
    queries: bool = False
    """Save queries of the workers' log."""
    notify: list[str] = field(default_factory=list)
    """E-mail addresses that alarms tell, up to 10."""
    channels: Sequence[pulumi.Input[str]] = field(default_factory=list)
    """Full names of existing notification channels that alarms tell as well."""
    owner: str | None = None
    """Who owns the queues, for the messages; None for the pipeline's name."""
    failed_percent: int = 20
    """Failed items among those that ended within 15 minutes, in percent, above which an alarm tells."""
    growing_hours: int | None = 6
    """Tell when the backlog has grown in each of so many hours; None for no such alarm."""
    full_hours: int | None = 6
    """Tell when a queue has been at its cap for so many hours and its backlog does not shrink; None for none."""
    reclaimed_percent: int | None = 30
    """Chunks that lose their machine, in percent, above which an alarm tells after three hours; None for none."""
    period_minutes: int = 2
    """Minutes between two looks of the reconciler (`GcpReconcilerArgs.period_minutes`)."""
    labels: dict[str, str] | None = None
    """Labels of the notification channels and alert policies."""


class GcpMonitoring(pulumi.ComponentResource):
    """A dashboard, saved queries, and alarms by e-mail or to notification channels.

    Makes: with `dashboard` a dashboard. With `queries` three queries that everyone in the project sees. With `notify` a
    notification channel per address; with `notify` or `channels` up to six alert policies of one condition each: the
    reconciler says that a queue is in trouble, the reconciler has been silent for 15 minutes, too many items fail, the
    backlog grows, a queue is at its cap, too many machines are taken back; and log-based metrics of the reconciler's
    runs, and of those that see a queue at its cap.

    Costs while idle: nothing without recipients; alert policies are to be billed per condition, see
    https://cloud.google.com/stackdriver/pricing.

    Example:
        ```python
        logs = GcpLogs("vision-dev-logs", GcpLogsArgs())
        args = GcpMonitoringArgs(
            pipeline="vision-dev",
            log=logs.log,
            metrics={
                "items": logs.counted["items"],
                "chunk-failures": logs.counted["chunk-failures"],
                "reclaims": logs.counted["reclaims"],
                "worker-errors": logs.counted["worker-errors"],
            },
            function="vision-dev-reconciler-run",
            subscriptions={"cpu": "vision-dev-cpu"},
            notify=["ml-oncall@example.com"],
        )
        monitoring = GcpMonitoring("vision-dev-monitoring", args)
        pulumi.export("alarms", monitoring.alarms)
        ```
    """

    alarms: list[pulumi.Output[str]]
    """Full names of the alert policies."""
    channels: list[pulumi.Output[str]]
    """Full names of the notification channels that they tell."""
    dashboard: pulumi.Output[str] | None
    """Full name of the dashboard; None without one."""

    def __init__(self, name: str, args: GcpMonitoringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpMonitoringArgs, args)
        super().__init__(token(GcpMonitoring), name, None, opts)
        settings = part(Monitoring, {key: getattr(args, key) for key in _KEYS}, "monitoring")
        check_monitoring(settings)
        self._name, self._args, self._project = name, args, Project(self)
        self._owner = settings.owner or args.pipeline
        self._child = pulumi.ResourceOptions(parent=self)
        self.alarms, self.channels = [], []
        if settings.tells:
            existing = [pulumi.Output.from_input(channel) for channel in settings.channels]
            self.channels = [*mailboxes(self, name, settings.notify, args.labels), *existing]
            self.alarms = [self._trouble(), self._silent(), self._failed(settings.failed_percent)]
            if settings.growing_hours:
                self.alarms.append(self._growing(settings.growing_hours))
            if settings.full_hours:
                self.alarms.append(self._full(settings.full_hours))
            if settings.reclaimed_percent:
                self.alarms.append(self._reclaimed(settings.reclaimed_percent))
        self.dashboard = self._dashboard() if settings.dashboard else None
        if settings.queries:
            self._queries()
        self.register_outputs({"alarms": self.alarms, "channels": self.channels, "dashboard": self.dashboard})

    @property
    def _lines(self) -> pulumi.Output[str]:
        """A filter of the reconciler's lines."""
        return pulumi.Output.concat(
            'resource.type = "cloud_run_revision" AND resource.labels.service_name = "', self._args.function, '"'
        )

    def _trouble(self) -> pulumi.Output[str]:
        """The reconciler sees backlogs, machines and errors together, so that one condition is enough.

        Source: https://cloud.google.com/logging/docs/alerting/log-based-alerts
        """
        lines = pulumi.Output.concat(self._lines, ' AND jsonPayload.event = "trouble"')
        condition = gcp.monitoring.AlertPolicyConditionArgs(
            display_name="The reconciler says that a queue is in trouble",
            condition_matched_log=gcp.monitoring.AlertPolicyConditionConditionMatchedLogArgs(
                filter=lines,
                label_extractors={each: f"EXTRACT(jsonPayload.{each})" for each in ("queue", "cause")},
            ),
        )
        rate = gcp.monitoring.AlertPolicyAlertStrategyNotificationRateLimitArgs(period=f"{NOTIFY_SECONDS}s")
        strategy = gcp.monitoring.AlertPolicyAlertStrategyArgs(
            notification_rate_limit=rate, auto_close=f"{NOTIFY_SECONDS}s"
        )
        notice = Notice(
            "high",
            "Queue ${log.extracted_label.queue} is in trouble: ${log.extracted_label.cause}.",
            "",
            "`tidemill explain JOB` says why and what to do, `tidemill doctor` looks at quotas and the network.",
        )
        return self._policy("trouble", condition, notice, strategy)

    def _silent(self) -> pulumi.Output[str]:
        runs = self._looks("runs", "Queues that the reconciler has looked at", 'event = "queue"')
        condition = _promql("The reconciler is silent", runs.apply(silent_query))
        notice = Notice(
            "high",
            f"The reconciler has not looked at the queues for {MINUTES} minutes, so that no idle machine is removed.",
            "it looks again",
            "`tidemill doctor` says why; docs/gcp.md.",
        )
        return self._policy("silent", condition, notice)

    def _failed(self, percent: int) -> pulumi.Output[str]:
        names = pulumi.Output.all(**self._args.metrics)
        query = names.apply(lambda names: failed_query(names, percent))
        condition = _promql(f"More than {percent} % of a queue's items fail", query)
        notice = Notice(
            "high",
            f"More than {percent} % of a queue's items failed within {MINUTES} minutes.",
            "fewer fail",
            "`tidemill jobs` lists the jobs, `tidemill failures JOB` groups what failed.",
        )
        return self._policy("failed", condition, notice)

    def _growing(self, hours: int) -> pulumi.Output[str]:
        names = pulumi.Output.all(*self._args.subscriptions.values())
        query = names.apply(lambda names: growing_query(names, hours))
        notice = Notice(
            "medium",
            f"More chunks have come to a queue than ended, in each of the last {hours} hours.",
            "the backlog is no larger than an hour before",
            "`tidemill top` shows what waits and for whom, `tidemill explain JOB` what holds it.",
        )
        return self._policy("growing", _promql(f"A queue's backlog grows for {hours} hours", query), notice)

    def _full(self, hours: int) -> pulumi.Output[str]:
        looks = self._looks(
            "full", "Queues that the reconciler has found at their cap", 'event = "queue" AND jsonPayload.full = true'
        )
        values = pulumi.Output.all(looks=looks, subscriptions=self._args.subscriptions)
        query = values.apply(lambda values: full_query(**values, hours=hours, period_minutes=self._args.period_minutes))
        notice = Notice(
            "low",
            f"A queue has been at its max_cpus for {hours} hours, and no less work waits than at half of them.",
            "less waits, or it has not been for a while",
            "`tidemill top` shows who uses the queue, `tidemill explain JOB` why a job waits.",
        )
        return self._policy("full", _promql(f"A queue is at its cap for {hours} hours", query), notice)

    def _reclaimed(self, percent: int) -> pulumi.Output[str]:
        names = pulumi.Output.all(**self._args.metrics)
        query = names.apply(lambda names: reclaimed_query(names, percent))
        notice = Notice(
            "low",
            f"More than {percent} % of a queue's chunks have lost their machine within three hours.",
            "fewer do",
            "`tidemill report JOB` shows what they cost, `tidemill advise` which machines are taken less often.",
        )
        return self._policy(
            "reclaims", _promql(f"More than {percent} % of a queue's chunks lose their machine", query), notice
        )

    def _looks(self, what: str, described: str, wanted: str) -> pulumi.Output[str]:
        """A metric of the reconciler's lines, by queue."""
        label = gcp.logging.MetricMetricDescriptorLabelArgs(key="queue", value_type="STRING")
        by_queue = what != "runs"
        return gcp.logging.Metric(
            f"{self._name}-{what}",
            description=described,
            filter=pulumi.Output.concat(self._lines, f" AND jsonPayload.{wanted}"),
            label_extractors={"queue": "EXTRACT(jsonPayload.queue)"} if by_queue else None,
            metric_descriptor=gcp.logging.MetricMetricDescriptorArgs(
                metric_kind="DELTA", value_type="INT64", unit="1", labels=[label] if by_queue else None
            ),
            opts=self._child,
        ).name

    def _policy(
        self,
        what: str,
        condition: gcp.monitoring.AlertPolicyConditionArgs,
        notice: Notice,
        strategy: gcp.monitoring.AlertPolicyAlertStrategyArgs | None = None,
    ) -> pulumi.Output[str]:
        """A policy. Google sends its text again when the incident closes."""
        return gcp.monitoring.AlertPolicy(
            f"{self._name}-{what}",
            display_name=f"{self._args.pipeline}: {condition.display_name}",
            combiner="OR",
            conditions=[condition],
            alert_strategy=strategy,
            severity=SEVERITIES[notice.severity],
            documentation=gcp.monitoring.AlertPolicyDocumentationArgs(
                content=notice.text(self._owner), mime_type="text/markdown"
            ),
            notification_channels=self.channels,
            user_labels=self._args.labels,
            opts=self._child,
        ).name

    def _queries(self) -> None:
        for title, wanted in QUERIES.items():
            gcp.logging.SavedQuery(
                f"{self._name}-{title.partition(' (')[0].replace(' ', '-')}",
                parent=pulumi.Output.concat("projects/", self._project.id),
                location="global",
                display_name=f"{self._args.pipeline}: {title}",
                visibility="SHARED",
                logging_query=gcp.logging.SavedQueryLoggingQueryArgs(
                    filter=pulumi.Output.concat('logName = "', self._args.log, f'" AND {wanted}')
                ),
                opts=self._child,
            )

    def _dashboard(self) -> pulumi.Output[str]:
        args = self._args
        values = pulumi.Output.all(
            log=args.log, metrics=args.metrics, subscriptions=args.subscriptions, fleets=args.fleets
        )
        made = gcp.monitoring.Dashboard(
            f"{self._name}-dashboard",
            dashboard_json=values.apply(lambda values: json.dumps(dashboard.body(args.pipeline, **values))),
            opts=self._child,
        )
        return made.id


def mailboxes(
    component: pulumi.Resource, name: str, addresses: list[str], labels: dict[str, str] | None
) -> list[pulumi.Output[str]]:
    """Full names of new notification channels to e-mail addresses, children of the component that tells them."""
    return [
        gcp.monitoring.NotificationChannel(
            f"{name}-{person(address).name}",
            display_name=address,
            type="email",
            labels={"email_address": address},
            user_labels=labels,
            opts=pulumi.ResourceOptions(parent=component),
        ).name
        for address in sorted(addresses)
    ]


def _promql(title: str, query: pulumi.Input[str]) -> gcp.monitoring.AlertPolicyConditionArgs:
    """A condition that holds where a query has a result.

    Without validation, because the first `up` makes the metric as well, and Monitoring knows it minutes later.
    Source: https://github.com/hashicorp/terraform-provider-google/issues/11102
    """
    language = gcp.monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
        query=query, duration="0s", evaluation_interval="300s", disable_metric_validation=True
    )
    return gcp.monitoring.AlertPolicyConditionArgs(display_name=title, condition_prometheus_query_language=language)
