"""Calls of Cloud Scheduler to a service of Cloud Run: the one account that may call it, its times and its log lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from ..member import Member, account_id
from ..project import Project

UTC = "Etc/UTC"


def service_account(parent: pulumi.Resource, stem: str, suffix: str, what: str) -> gcp.serviceaccount.Account:
    """A service account of a pipeline, child of the component that uses it.

    Args:
        stem: The pipeline's name.
        suffix: Its name within the pipeline.
        what: What it does, for people.
    """
    return gcp.serviceaccount.Account(
        f"{parent.pulumi_resource_name}-{suffix}",
        account_id=account_id(stem, suffix),
        display_name=f"Tidemill: {what}, for {stem}",
        opts=pulumi.ResourceOptions(parent=parent),
    )


def member_of(name: str, account: gcp.serviceaccount.Account) -> Member:
    """A service account as the member of grants."""
    return Member(name, pulumi.Output.concat("serviceAccount:", account.email))


@dataclass(frozen=True)
class Called:
    """A service that is called at times.

    Attributes:
        parent: The component that it belongs to.
        name: The service's name in Cloud Run.
        address: Its URL.
        seconds: The limit of a call.
        caller: The account that calls it.
    """

    parent: pulumi.Resource
    name: pulumi.Output[str]
    address: pulumi.Output[str]
    seconds: int
    caller: gcp.serviceaccount.Account

    def let_in(self, location: pulumi.Input[str]) -> gcp.cloudrunv2.ServiceIamMember:
        """Let the caller's account call the service, and no other."""
        return gcp.cloudrunv2.ServiceIamMember(
            f"{self.parent.pulumi_resource_name}-invoker",
            location=location,
            name=self.name,
            role="roles/run.invoker",
            member=member_of("scheduler", self.caller).principal,
            opts=pulumi.ResourceOptions(parent=self.parent),
        )

    def at(
        self,
        what: str,
        schedule: str,
        timezone: str = UTC,
        body: Mapping[str, Any] | None = None,
        *,
        retry: gcp.cloudscheduler.JobRetryConfigArgs | None = None,
        after: pulumi.Resource,
    ) -> gcp.cloudscheduler.Job:
        """A job of Cloud Scheduler that calls it.

        Args:
            what: The end of the job's name among the component's children.
            schedule: Five fields.
            timezone: Whose wall clock the fields are of.
            body: JSON of each call.
            retry: How often a failed call is made again; None for never.
            after: What must exist before the first call.
        """
        return gcp.cloudscheduler.Job(
            f"{self.parent.pulumi_resource_name}-{what}",
            region=Project(self.parent).region,
            schedule=schedule,
            time_zone=timezone,
            attempt_deadline=f"{self.seconds + 10}s",
            # Given, so that a job which someone paused is drift.
            paused=False,
            retry_config=retry,
            http_target=gcp.cloudscheduler.JobHttpTargetArgs(
                http_method="POST",
                uri=self.address,
                body=base64.b64encode(json.dumps(body).encode()).decode() if body is not None else None,
                headers={"Content-Type": "application/json"} if body is not None else None,
                oidc_token=gcp.cloudscheduler.JobHttpTargetOidcTokenArgs(
                    service_account_email=self.caller.email, audience=self.address
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self.parent, depends_on=[after]),
        )

    def keep_lines(self, log_bucket: pulumi.Input[str] | None) -> None:
        """Send its lines to a log bucket; None leaves them in ``_Default``."""
        if log_bucket is None:
            return
        gcp.logging.ProjectSink(
            f"{self.parent.pulumi_resource_name}-lines",
            destination=pulumi.Output.concat("logging.googleapis.com/", log_bucket),
            filter=pulumi.Output.concat(
                'resource.type = "cloud_run_revision" AND resource.labels.service_name = "', self.name, '"'
            ),
            unique_writer_identity=True,
            opts=pulumi.ResourceOptions(parent=self.parent),
        )
