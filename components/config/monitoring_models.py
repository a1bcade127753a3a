"""Dashboards, alarms and their recipients as plain data."""

import re
from typing import Annotated

from pydantic import Field

from .later import Text, from_resource
from .model import Model
from .types import ADDRESS, CHANNEL, OWNER, SNS_TOPIC, TOPIC, Name, matching, unique

MOST_MINUTES = 1440
"""An alarm of CloudWatch looks back a day at most.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"""

ALARM_KEYS = (
    "failed_percent", "growing_hours", "full_hours", "reclaimed_percent", "no_machine_minutes", "stalled_minutes",
)  # fmt: skip
"""Keys of when an alarm tells."""

CONDITIONS = 3
"""Conditions of the alert policies on GCP that every recipient has."""


class Monitoring(Model):
    """A dashboard, and alarms for the people who must know. Without recipients there is no alarm."""

    dashboard: bool = Field(
        default=False,
        description="A dashboard of the queues: items, failed items, reclaims, errors of workers, machines. AWS: $3 "
        "per month after the account's third. GCP: free.",
    )
    queries: bool = Field(
        default=False,
        description="Queries of the log that the cloud's console offers by name: failed items, workers in trouble, one "
        "job. Free. On AWS an administrator turns it on, not CI.",
    )
    notify: Annotated[
        list[Annotated[str, matching(ADDRESS, "an e-mail address such as ml-oncall@example.com", 254)]], unique
    ] = Field(
        default=[],
        max_length=10,
        description="E-mail addresses that alarms tell. AWS sends each a confirmation first; $1.00 per queue and month "
        "after the account's first ten metrics. GCP: six conditions of alert policies.",
    )
    topic: Annotated[Text, from_resource(SNS_TOPIC, "the ARN of an SNS topic", "monitoring.topic")] | None = Field(
        default=None,
        description="AWS: an existing SNS topic that alarms and the budget tell instead of `notify`, for chat; its "
        "policy must let CloudWatch, EventBridge and Budgets publish.",
    )
    channels: Annotated[
        list[
            Annotated[
                Text,
                from_resource(
                    CHANNEL,
                    "a notification channel such as projects/my-project/notificationChannels/123",
                    "monitoring.channels",
                ),
            ]
        ],
        unique,
    ] = Field(
        default=[],
        max_length=6,
        description="GCP: existing notification channels that alarms tell in addition to `notify`, for chat.",
    )
    job_channels: dict[
        Name,
        Annotated[
            Text,
            from_resource(
                re.compile(f"{SNS_TOPIC.pattern}|{TOPIC.pattern}"),
                "the ARN of an SNS topic; on GCP projects/p/topics/t",
                "monitoring.job_channels",
            ),
        ],
    ] = Field(
        default={},
        max_length=5,
        description="Existing topics that submitters may have told when a job ends, by the name that they give to "
        "`submit --notify`. Jobs and submitters may publish to them.",
        examples=[{"oncall": "arn:aws:sns:us-west-2:123456789012:ml-oncall"}],
    )
    owner: Annotated[str, matching(OWNER, "a name such as ml-oncall or #ml-oncall", 80)] | None = Field(
        default=None,
        description="Who owns the queues: a team, a rota, a chat room. Every message says so, and so does "
        "the error of an unknown queue. The default is the team.",
        examples=["ml-oncall, #ml-oncall"],
    )
    failed_percent: int = Field(
        default=20,
        ge=1,
        le=100,
        description="Failed items among those that ended within 15 minutes, in percent, above which an alarm tells.",
    )
    growing_hours: int | None = Field(
        default=6,
        ge=2,
        le=24,
        description="Tell when the backlog has grown in each of so many hours; null for no such alarm. AWS: $0.20 per "
        "queue and month.",
    )
    full_hours: int | None = Field(
        default=6,
        ge=1,
        le=24,
        description="Tell when a queue has been at its cap for so many hours and its backlog does not shrink: on AWS "
        "chunks that start have waited longer and as many came as started, on GCP the autoscaler has wanted more "
        "machines than it may have. Null for no such alarm. AWS: $0.30 per queue and month.",
    )
    reclaimed_percent: int | None = Field(
        default=30,
        ge=1,
        le=100,
        description="Tell when for three hours more than this share of the chunks has lost its machine; null for no "
        "such alarm. AWS: $0.20 per queue and month.",
    )
    no_machine_minutes: int | None = Field(
        default=None,
        ge=15,
        le=720,
        description="AWS: tell when work has waited this long without a machine, although Batch itself, which would "
        "tell at once, says nothing. $0.30 per queue and month, and $0.10 per rung. On GCP the reconciler tells after "
        "15 minutes.",
    )
    stalled_minutes: int | None = Field(
        default=None,
        ge=15,
        le=MOST_MINUTES,
        description="AWS: tell when machines are reserved but no item ends for this long; it must be more than the "
        "longest chunk takes. $0.10 per month, and $0.10 per rung. On GCP the reconciler watches the workers.",
    )

    def alarm_metrics(self, rungs: int, job_queues: int = 1) -> int:
        """Metrics that the alarms of a queue with so many rungs and job queues read on AWS, which bills each."""
        wanted = (
            (3, True),
            (2 * job_queues, self.growing_hours),
            (3 * job_queues, self.full_hours),
            (1 + job_queues, self.reclaimed_percent),
            ((3 + rungs) * job_queues, self.no_machine_minutes),
            (1 + rungs, self.stalled_minutes),
        )
        return sum(metrics for metrics, key in wanted if key) if self.tells else 0

    @property
    def conditions(self) -> int:
        """Conditions of the alert policies on GCP, which bills each."""
        wanted = (self.growing_hours, self.full_hours, self.reclaimed_percent)
        return CONDITIONS + sum(key is not None for key in wanted) if self.tells else 0

    @property
    def tells(self) -> bool:
        """True if alarms have a recipient."""
        return bool(self.notify or self.topic or self.channels)

    @property
    def makes_anything(self) -> bool:
        return self.tells or self.dashboard or self.queries
