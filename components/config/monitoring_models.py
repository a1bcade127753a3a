"""Dashboards, alarms and their recipients as plain data."""

from typing import Annotated

from pydantic import Field

from components.config.model import Model
from components.config.types import ADDRESS, CHANNEL, SNS_TOPIC, TOPIC, Name, either, matching, unique

MOST_MINUTES = 1440
"""An alarm of CloudWatch looks back a day at most.
Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html"""


CONDITIONS = 3
"""Conditions of the alert policies on GCP."""


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
        description="E-mail addresses that alarms tell. AWS sends each a confirmation first; $0.30 per queue and month "
        "after the account's first ten metrics. GCP: three conditions of alert policies.",
    )
    topic: Annotated[str, matching(SNS_TOPIC, "the ARN of an SNS topic")] | None = Field(
        default=None,
        description="AWS: an existing SNS topic that alarms and the budget tell instead of `notify`, for chat; its "
        "policy must let CloudWatch, EventBridge and Budgets publish.",
    )
    channels: Annotated[
        list[
            Annotated[
                str, matching(CHANNEL, "a notification channel such as projects/my-project/notificationChannels/123")
            ]
        ],
        unique,
    ] = Field(
        default=[],
        max_length=6,
        description="GCP: existing notification channels that alarms tell in addition to `notify`, for chat.",
    )
    job_channels: dict[
        Name, Annotated[str, either(SNS_TOPIC, TOPIC, "the ARN of an SNS topic; on GCP projects/p/topics/t")]
    ] = Field(
        default={},
        max_length=5,
        description="Existing topics that submitters may have told when a job ends, by the name that they give to "
        "`submit --notify`. Jobs and submitters may publish to them.",
        examples=[{"oncall": "arn:aws:sns:us-west-2:123456789012:ml-oncall"}],
    )
    failed_percent: int = Field(
        default=20,
        ge=1,
        le=100,
        description="Failed items among those that ended within 15 minutes, in percent, above which an alarm tells.",
    )
    stalled_minutes: int | None = Field(
        default=None,
        ge=15,
        le=MOST_MINUTES,
        description="AWS: tell when machines are reserved but no item ends for this long; it must be more than the "
        "longest chunk takes. $0.10 per month, and $0.10 per rung. On GCP the reconciler watches the workers.",
    )

    def alarm_metrics(self, rungs: int) -> int:
        """Metrics that the alarms of a queue with so many rungs read on AWS, which bills each."""
        stalled = 1 + rungs if self.stalled_minutes else 0
        return 3 + stalled if self.tells else 0

    @property
    def tells(self) -> bool:
        """True if alarms have a recipient."""
        return bool(self.notify or self.topic or self.channels)

    @property
    def makes_anything(self) -> bool:
        return self.tells or self.dashboard or self.queries
