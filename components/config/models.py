"""A stack's config as plain data: every key with its default, its range, a sentence and what it costs idle.

The keys of a stack file are ``tidemill:<field of StackConfig>``. Rules that need more than one key, and what only one
cloud has, are in ``checks/``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from components.config.import_models import Imports
from components.config.network_models import Network
from components.config.queue_models import Model, Queue
from components.config.types import (
    ADDRESS,
    AWS_KEY,
    AWS_PRINCIPAL,
    BILLING_ACCOUNT,
    GCP_PRINCIPAL,
    POLICY,
    DataUri,
    KmsKey,
    Name,
    StackName,
    either,
    matching,
    unique,
)
from components.config.waiver_models import Waiver


class Data(Model):
    """Buckets other than the job store that this team's jobs may use. On GCP they are granted one by one, so they must
    be there before the stack, and the deployer must be allowed to set their IAM policies.
    """

    read: Annotated[list[DataUri], unique] = Field(default=[], description="What jobs may read.")
    write: Annotated[list[DataUri], unique] = Field(default=[], description="What jobs may read and write.")
    kms_keys: Annotated[list[Annotated[str, matching(AWS_KEY, "the ARN of a KMS key")]], unique] = Field(
        default=[],
        description="AWS: KMS keys that those buckets are encrypted with. On GCP Cloud Storage uses them itself.",
    )


class Store(Model):
    """The job store: a bucket of the team's own."""

    expire_jobs_after_days: int | None = Field(
        default=None,
        ge=1,
        le=3650,
        description="Delete what is under jobs/ this many days after it was written. Leave out to keep it; results "
        "under out/ are never deleted.",
    )
    kms_key: KmsKey | None = Field(
        default=None,
        description="Encrypt with a KMS key instead of the cloud's own. `create` makes one, about $1 a month idle "
        "(GCP: about $0.06 for each version, a new one every 90 days).",
    )
    versioning: bool = Field(
        default=False, description="Keep overwritten objects for 30 days; their storage is billed."
    )
    soft_delete_days: int = Field(
        default=7,
        ge=7,
        le=90,
        description="GCP: days that a deleted or overwritten object can be restored; its storage is billed as long.",
    )


class Images(Model):
    """Image repositories that a stack makes."""

    repositories: Annotated[list[Name], unique] = Field(
        default=[],
        description="AWS: repositories to make beside those that a queue's `registry://` images name. On GCP one "
        "repository holds images of every name.",
    )
    keep_images: int = Field(
        default=100, ge=1, le=10_000, description="Images kept in each repository; older ones expire."
    )
    expire_untagged_after_days: int = Field(
        default=14, ge=1, le=3650, description="Days after which untagged images expire."
    )


class Registry(Images):
    """The team's image repositories."""

    shared: StackName | None = Field(
        default=None,
        description="Let images also come from the registry of a shared stack (folder shared/), as shared://name:tag "
        "or by digest, such as organization/tidemill-shared/prod.",
    )


class Logs(Model):
    """The workers' log lines: a log group on AWS, a log bucket on GCP."""

    retention_days: int = Field(
        default=14,
        ge=1,
        le=3653,
        description="Days that log lines are kept; storage is billed by the GB and month (GCP: beyond 30 days). "
        "CloudWatch takes certain numbers only, GCP 1 to 3650.",
    )
    kms_key: KmsKey | None = Field(
        default=None,
        description="Encrypt with a KMS key. `create` makes one, about $1 a month idle (GCP: about $0.06).",
    )
    archive: Literal["bucket", "bigquery"] | None = Field(
        default=None,
        description="`bucket`: copy every line to a bucket, on AWS the job store (under logs/, through Firehose), on "
        "GCP one of its own. `bigquery`: to a BigQuery dataset, GCP only. Billed by the GB, nothing idle.",
    )


class Budget(Model):
    """A monthly budget of what the stack costs, and who is told when it is used up. A notice, not a stop."""

    monthly_usd: int = Field(
        ge=1,
        le=100_000_000,
        description="Whole US dollars a calendar month. Costs nothing. GCP: the billing account must be in USD.",
    )
    notify: Annotated[
        list[Annotated[str, matching(ADDRESS, "an e-mail address such as ml-platform@example.com", 254)]],
        unique,
    ] = Field(
        min_length=1,
        max_length=10,
        description="E-mail addresses that are told at 50, 80 and 100 % spent and at 100 % forecast; on GCP at most 5.",
    )
    billing_account: (
        Annotated[str, matching(BILLING_ACCOUNT, "the id of a billing account such as 012345-6789AB-CDEF01")] | None
    ) = Field(
        default=None,
        description="GCP: the billing account that pays for the project; budgets belong to it. AWS has none.",
    )


class Access(Model):
    """Who may submit."""

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
        description="Principals that may submit. AWS: they may assume a submitter role, which is made only if there "
        "are some. GCP: they get the submitter's grants themselves.",
    )


class StackConfig(Model):
    """The keys ``tidemill:<field>`` of a stack file."""

    team: Name = Field(description="The team that owns the pipeline: the trust boundary, and a tag on everything.")
    environment: Name = Field(description="Which of the team's pipelines this is: dev, prod.")
    cloud: Literal["aws", "gcp"] = Field(default="aws", description="The cloud that the pipeline is on.")
    network: Network = Field(
        default=Network(), description="Where machines run.", examples=[{"create": {"egress": "public"}}]
    )
    data: Data = Field(
        default=Data(),
        description="Buckets that jobs may use beside the job store.",
        examples=[
            {"read": ["s3://raw-images"], "write": ["s3://features/vision/"]},
            {"read": ["gs://raw-images"], "write": ["gs://features/vision/"]},
        ],
    )
    store: Store = Field(default=Store(), description="The job store.")
    registry: Registry = Field(default=Registry(), description="The team's image repositories.")
    logs: Logs = Field(default=Logs(), description="The workers' log lines.")
    budget: Budget | None = Field(
        default=None,
        description="A monthly budget with notices by e-mail. Leave out for none; it costs nothing.",
        examples=[
            {"monthly_usd": 500, "notify": ["ml-platform@example.com"]},
            {
                "monthly_usd": 500,
                "notify": ["ml-platform@example.com"],
                "billing_account": "012345-6789AB-CDEF01",
            },
        ],
    )
    worker_image: str | None = Field(
        default=None,
        description="The worker's image by digest, as `make worker PUSH=REGISTRY` prints it; it runs beside every "
        "image of the queues. Leave out when the images bring `tidemill` themselves.",
        examples=[f"registry://tidemill-worker@sha256:{64 * '0'}"],
    )
    queues: dict[Name, Queue] = Field(
        min_length=1,
        max_length=50,
        description="The queues, by the name that users type. AWS has 50 in an account and region, for all stacks.",
    )
    access: Access = Field(
        default=Access(),
        description="Who may submit.",
        examples=[
            {"submitters": ["arn:aws:iam::123456789012:role/vision-engineers"]},
            {"submitters": ["group:vision-engineers@example.com"]},
        ],
    )
    imports: Imports = Field(
        default=Imports(),
        description="What exists already and is taken over.",
        examples=[{"store": "vision-results"}],
    )
    permission_boundary: Annotated[str, matching(POLICY, "the ARN of an IAM policy")] | None = Field(
        default=None,
        description="AWS: IAM policy that bounds every role of the stack.",
        examples=["arn:aws:iam::123456789012:policy/boundary"],
    )
    allow: Annotated[list[Literal["replace", "purge"]], unique] = Field(
        default=[],
        description="`replace` lifts protection from compute environments, machine groups and subnetworks on GCP; "
        "`purge` from everything, and lets destroy empty the buckets and registries.",
        examples=[["replace"]],
    )

    waivers: list[Waiver] = Field(
        default=[],
        max_length=50,
        description="Rules of the policy pack that this stack may break for a while, each with a reason and a last "
        "day; the review shows them.",
    )

    @property
    def may_replace(self) -> bool:
        """Whether what machines run in may be replaced or deleted."""
        return bool(self.allow)

    @property
    def may_purge(self) -> bool:
        """Whether buckets and registries may be deleted, with what is in them."""
        return "purge" in self.allow
