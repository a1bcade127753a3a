"""Who may submit, as plain data."""

from typing import Annotated

from pydantic import Field

from .model import Model
from .types import AWS_PRINCIPAL, GCP_PRINCIPAL, either, unique


class Access(Model):
    """Who may submit, and what submitters may ask."""

    submitters: Annotated[
        list[
            Annotated[
                str,
                either(
                    AWS_PRINCIPAL,
                    GCP_PRINCIPAL,
                    "the ARN of an IAM user or role, or arn:aws:iam::<account>:root; on GCP user:, group: or "
                    "serviceAccount: and an address",
                ),
            ]
        ],
        unique,
    ] = Field(
        default=[],
        description="Principals that may submit. AWS: they may assume a submitter role, which exists only if there "
        "are any. GCP: they get the submitter's grants themselves.",
    )
    advise: bool = Field(
        default=False,
        description="Whether submitters may ask the cloud which machines are to be had, at which risk and price, as "
        "`tidemill advise` does. These calls are free, change nothing, and tell of the whole account: AWS has no "
        "resources for them.",
    )
