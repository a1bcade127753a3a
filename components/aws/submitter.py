"""The IAM permissions of submitters on AWS Batch."""

import pulumi

from ..base import ENVIRONMENT_TAG, TEAM_TAG
from .account import Account
from .logs import QUERIES
from .policy import Statement, allow

_WATCH = [
    "batch:DescribeComputeEnvironments",
    "batch:DescribeJobDefinitions",
    "batch:DescribeJobQueues",
    "batch:DescribeJobs",
    "batch:GetJobQueueSnapshot",
    "batch:ListJobs",
    *QUERIES,
    "servicequotas:GetServiceQuota",
]
"""Calls without a resource; `tidemill doctor` checks the quota of vCPUs."""


_LOOK = ["batch:DescribeJobDefinitions", "batch:DescribeJobQueues", "batch:DescribeJobs", "batch:ListJobs"]
"""What a submit and the question whether a job has ended need; these calls have no resource."""

_ADVISE = ["ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSpotPriceHistory"]
"""Calls that read AWS's offerings and prices: the same for every account, but for the names of zones."""


def _tagged(team: str) -> dict[str, str]:
    return {f"aws:RequestTag/{TEAM_TAG}": team}


def submit_statement(arns: list[pulumi.Output[str]], team: str) -> Statement:
    """Submit to queues and their images, with the team's tag on the job.

    No RegisterJobDefinition, no PassRole: anyone who may register a definition may mount the machine's root.
    SubmitJob with tags was seen to require TagResource on the definition, not on the new job.
    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html
    """
    return allow(["batch:SubmitJob", "batch:TagResource"], arns, {"StringEquals": _tagged(team)})


def jobs_statements(account: Account, team: str, environment: str | None = None) -> list[Statement]:
    """Tag new jobs for the team, end the team's jobs, and watch. Describe and list calls of Batch have no resource."""
    owned = {"StringEquals": {f"aws:ResourceTag/{TEAM_TAG}": team}}
    owned |= {"StringEqualsIfExists": {f"aws:ResourceTag/{ENVIRONMENT_TAG}": environment}} if environment else {}
    return [
        _tag_statement(account, team, environment),
        allow(["batch:CancelJob", "batch:TerminateJob"], [account.arn("batch", "job/*")], owned),
        allow(_WATCH, ["*"]),
    ]


def sender_statements(account: Account, team: str, environment: str) -> list[Statement]:
    """Tag new jobs for the team, and look whether earlier ones have ended; the sender ends none."""
    return [_tag_statement(account, team, environment), allow(_LOOK, ["*"])]


def _tag_statement(account: Account, team: str, environment: str | None) -> Statement:
    """A job with the tag of another team or environment cannot be tagged, because its tagger could then end it. A job
    that SubmitJob is creating has no tags yet; one from an older client has no environment."""
    claimed = {f"aws:ResourceTag/{TEAM_TAG}": team}
    claimed |= {f"aws:ResourceTag/{ENVIRONMENT_TAG}": environment} if environment else {}
    unclaimed = {"StringEquals": _tagged(team), "StringEqualsIfExists": claimed}
    return allow(["batch:TagResource"], [account.arn("batch", "job/*")], unclaimed)


def advise_statements(region: pulumi.Input[str]) -> list[Statement]:
    """Ask where Spot machines are to be had, and at which price.

    EC2 has no resources for these calls. Prices are compared across regions; scores, of which an account may ask few
    different ones per day, are asked for in the stack's region, which answers for others too.
    Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html and
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/sps-iam-permission.html
    """
    here = {"StringEquals": {"aws:RequestedRegion": region}}
    return [allow(["ec2:GetSpotPlacementScores"], ["*"], here), allow(_ADVISE, ["*"])]
