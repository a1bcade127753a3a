"""Who may submit, and what a job may choose, as plain data."""

import re
from typing import Annotated, Literal

from pydantic import Field

from .later import Text, from_resource
from .model import Model
from .types import AWS_PRINCIPAL, GCP_PRINCIPAL, unique


class Access(Model):
    """Who may submit, and what submitters may ask."""

    submitters: Annotated[
        list[
            Annotated[
                Text,
                from_resource(
                    re.compile(f"{AWS_PRINCIPAL.pattern}|{GCP_PRINCIPAL.pattern}"),
                    "the ARN of an IAM user or role, of a role session, or arn:aws:iam::<account>:root; on GCP user:, "
                    "group: or serviceAccount: and an address",
                    "access.submitters",
                ),
            ]
        ],
        unique,
    ] = Field(
        default=[],
        description="Principals that may submit. AWS: they may assume a submitter role, which exists only if there "
        "are any. GCP: they get the submitter's grants themselves.",
    )
    personal_secrets: bool = Field(
        default=False,
        description="Whether the stack keeps secrets of its one submitter (`tidemill secret`), which every job of the "
        "stack can read. Only for a stack of one person: AWS: submitters: [arn:aws:iam::<account>:user/<name>], or "
        "the role session of a person of IAM Identity Center; GCP: [user:<address>]. AWS: about $0.40 per month idle, "
        "GCP: about $0.06.",
    )
    advise: bool = Field(
        default=False,
        description="Whether submitters may ask the cloud which machines are to be had, at which risk and price, as "
        "`tidemill advise` does. These calls are free, change nothing, and tell of the whole account: AWS has no "
        "resources for them.",
    )


class PerJob(Model):
    """Choices that a queue leaves to its jobs."""

    markets: list[Literal["spot", "on_demand"]] = Field(
        default=[],
        max_length=2,
        description="Markets that a job may ask for (`--market`). Each has a job queue of its own over the rungs of "
        "that market, which costs nothing but the metrics that its alarms read. Leave out for none.",
        examples=[["spot"]],
    )
