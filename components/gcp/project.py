"""The Google Cloud project of a component's resources, with its region."""

from __future__ import annotations

import re
from functools import cached_property

import pulumi
import pulumi_gcp as gcp

_PREFIX = re.compile(r"invoking \S+: (\d+ errors? occurred: \* )?")
"""The prefix of the reason in errors of the provider's functions."""


class Project:
    """Project and region of a component's provider; no resources."""

    def __init__(self, parent: pulumi.Resource) -> None:
        self._opts = pulumi.InvokeOptions(parent=parent)
        client = gcp.organizations.get_client_config_output(opts=self._opts)
        self.id: pulumi.Output[str] = client.project
        self.region: pulumi.Output[str] = client.region

    @cached_property
    def number(self) -> pulumi.Output[str]:
        """The project number, which is part of the names of Google's service agents.

        The lookup is immediate, so that an unreadable project ends the run with one line.
        """
        try:
            return pulumi.Output.from_input(gcp.organizations.get_project(opts=self._opts).number)
        except Exception as error:
            reason = " ".join(str(error).rpartition("returned an error: ")[2].split())
            raise pulumi.RunError(
                "gcp:project: the project cannot be read. Name one that exists, log in as a user who may see it, and "
                "run the stack in bootstrap/ once, which enables the APIs. Google's provider says: "
                + _PREFIX.sub("", reason)
            ) from None

    def bind(
        self,
        name: str,
        role: pulumi.Input[str],
        principal: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
        condition: gcp.projects.IAMMemberConditionArgs | None = None,
    ) -> gcp.projects.IAMMember:
        """A role of a principal on the whole project."""
        return gcp.projects.IAMMember(
            name, project=self.id, role=role, member=principal, condition=condition, opts=opts
        )

    def agent(self, service: str) -> pulumi.Output[str]:
        """A service agent as IAM names it: ``agent("gcp-sa-pubsub")``.

        The agent exists once the service was used or, as in the bootstrap stack, the agent was created.
        Source: https://cloud.google.com/iam/docs/service-agents
        """
        return pulumi.Output.concat("serviceAccount:service-", self.number, "@", service, ".iam.gserviceaccount.com")
