"""Sends templates: a service that Cloud Scheduler calls at the times of a stack's schedules, and to look for files."""

from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ...base import as_args, token
from ..project import Project
from .called import UTC, Called, member_of, service_account

ENTRY = "/tidemill/tidemill-worker"
SECONDS = 900
"""The limit of a call, for a template with very many items."""
_RETRY = gcp.cloudscheduler.JobRetryConfigArgs(
    retry_count=5, max_retry_duration="3600s", min_backoff_duration="30s", max_backoff_duration="300s"
)
"""A failed call is made again for an hour: both limits must be reached.

Source: https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs#RetryConfig
"""


@dataclass
class GcpSenderArgs:
    """Arguments of `GcpSender`."""

    image: pulumi.Input[str]
    """The worker's image for x86_64, in Artifact Registry, by digest."""
    pipeline_uri: pulumi.Input[str]
    """URI of the descriptor, which has the schedules and arrivals."""
    crons: dict[str, str] = field(default_factory=dict)
    """When it is called, in five fields, by the name of the schedule."""
    timezones: dict[str, str] = field(default_factory=dict)
    """Whose wall clock the fields are of, by the name of the schedule; UTC where it is left out."""
    arrivals: bool = False
    """True if it also looks for new files, once per minute."""
    log_bucket: pulumi.Input[str] | None = None
    """Full name of the log bucket for its lines; None leaves them in ``_Default``."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpSender(pulumi.ComponentResource):
    """Sends a stack's templates without a person. Nothing of it runs between two calls.

    Makes: service accounts for the service and for its caller; the service (Cloud Run, at most one instance), which
    only the caller's account may call and only from inside the project; a scheduler job for each schedule, in its time
    zone, and one for arrivals; with `log_bucket` a log sink.

    Costs while idle: $0.10 per month for each scheduler job after the first three of a billing account; with arrivals
    also about 44,000 calls per month of a fraction of a second, inside the free tier of Cloud Run.

    Example:
        ```python
        sender = GcpSender(
            "vision-dev-sender",
            GcpSenderArgs(
                image="us-central1-docker.pkg.dev/vision-dev-1/vision-dev/tidemill-worker@sha256:0d8e…",
                pipeline_uri="gs://vision-dev-store/pipeline.json",
                crons={"nightly": "0 2 * * *"},
                timezones={"nightly": "Europe/Berlin"},
            ),
        )
        pulumi.export("sender", sender.service)
        ```
    """

    service: pulumi.Output[str]
    """The service's name."""

    def __init__(self, name: str, args: GcpSenderArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpSenderArgs, args)
        super().__init__(token(GcpSender), name, None, opts)
        stem = name.removesuffix("-sender")
        account = service_account(self, stem, "sender", "sends templates")
        # For grants on the store, on messages and on data.
        self.member = member_of("sender", account)
        service = self._service(name, args, account)
        caller = service_account(self, stem, "timer", "calls the sender")
        called = Called(self, service.name, service.uri, SECONDS, caller)
        invoker = called.let_in(service.location)
        for key, cron in args.crons.items():
            zone, body = args.timezones.get(key, UTC), {"schedule": key}
            called.at(f"at-{key}", cron, zone, body, retry=_RETRY, after=invoker)
        if args.arrivals:
            called.at("look", "* * * * *", body={"arrivals": True}, after=invoker)
        called.keep_lines(args.log_bucket)
        self.service = service.name
        self.register_outputs({"service": self.service})

    def _service(self, name: str, args: GcpSenderArgs, account: gcp.serviceaccount.Account) -> gcp.cloudrunv2.Service:
        variables = {"TIDEMILL_PIPELINE": args.pipeline_uri, "TIDEMILL_LOGIN": "machine"}
        envs: list[Any] = [
            gcp.cloudrunv2.ServiceTemplateContainerEnvArgs(name=key, value=value) for key, value in variables.items()
        ]
        container = gcp.cloudrunv2.ServiceTemplateContainerArgs(
            image=args.image,
            commands=[ENTRY],
            args=["sender"],
            envs=envs,
            # Its files are in memory, too.
            resources=gcp.cloudrunv2.ServiceTemplateContainerResourcesArgs(limits={"cpu": "1", "memory": "1Gi"}),
        )
        return gcp.cloudrunv2.Service(
            f"{name}-run",
            location=Project(self).region,
            description="Sends templates at their times, and when files arrive",
            # Cloud Scheduler of the same project counts as inside.
            # Source: https://cloud.google.com/run/docs/securing/ingress
            ingress="INGRESS_TRAFFIC_INTERNAL_ONLY",
            template=gcp.cloudrunv2.ServiceTemplateArgs(
                service_account=account.email,
                timeout=f"{SECONDS}s",
                max_instance_request_concurrency=1,
                scaling=gcp.cloudrunv2.ServiceTemplateScalingArgs(min_instance_count=0, max_instance_count=1),
                containers=[container],
            ),
            # It holds nothing; the reviewed stack file says whether it is there.
            deletion_protection=False,
            labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self),
        )
