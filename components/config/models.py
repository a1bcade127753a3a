"""A stack's config as plain data: every key with its default, range, description and idle cost.

The keys of a stack file are ``tidemill:<field of StackConfig>``. Rules that need more than one key, or that only one
cloud has, are in ``checks/``.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr

from ..rooms import DEFAULT, CloudName
from .access_models import Access
from .budget_models import Budget
from .file_system_models import FileSystem
from .import_models import Imports
from .key_models import Disks, Topics
from .later import LogsKey, ReadUri, StoreKey, Text, WriteUri, from_resource, is_plain
from .model import Model
from .monitoring_models import Monitoring
from .network_models import Network
from .outbound_models import Certificates, Proxy
from .queue_models import Queue
from .registry_models import Mirrors, Registry
from .schedule_models import Arrival, Schedule
from .types import (
    AWS_KEY,
    POLICY,
    Name,
    matching,
    unique,
)
from .waiver_models import Waiver


class Data(Model):
    """Buckets, apart from the job store, that this team's jobs may use. On GCP each gets its own grant, so they must
    exist before the stack, and the deployer must be allowed to set their IAM policies.
    """

    read: Annotated[list[ReadUri], unique] = Field(default=[], description="What jobs may read.")
    write: Annotated[list[WriteUri], unique] = Field(default=[], description="What jobs may read and write.")
    kms_keys: Annotated[
        list[Annotated[Text, from_resource(AWS_KEY, "the ARN of a KMS key", "data.kms_keys")]], unique
    ] = Field(
        default=[],
        description="AWS: KMS keys of those buckets. On GCP Cloud Storage uses the keys itself.",
    )


class Store(Model):
    """The job store: the team's own bucket."""

    expire_jobs_after_days: int | None = Field(
        default=None,
        ge=30,
        le=3650,
        description="Delete objects under jobs/ and uploads/ this many days after they were written, also those of "
        "jobs that still run: an attempt may take 28 days. Leave out to keep them; results under out/ are never "
        "deleted.",
    )
    expire_state_after_days: int = Field(
        default=30,
        ge=14,
        le=3650,
        description="Delete the state of items (state/) this many days after it was last written. Workers write the "
        "state of an item that still runs again after a week.",
    )
    kms_key: StoreKey | None = Field(
        default=None,
        description="Encrypt with a KMS key instead of the cloud's own. `create` makes one, about $1 per month idle "
        "(GCP: about $0.06 per version, a new one every 90 days).",
    )
    versioning: bool = Field(
        default=False,
        description="Keep overwritten objects for 30 days; their storage is billed. If you turn it off later, those "
        "kept until then stay, and are billed, until you delete them.",
    )
    soft_delete_days: int = Field(
        default=7,
        ge=7,
        le=90,
        description="GCP: days for which a deleted or overwritten object can be restored; billed for its storage.",
    )


class Logs(Model):
    """The workers' log lines: a log group on AWS, a log bucket on GCP."""

    retention_days: int = Field(
        default=14,
        ge=1,
        le=3653,
        description="Days to keep log lines; storage is billed per GB and month (GCP: beyond 30 days). "
        "CloudWatch accepts certain numbers only, GCP 1 to 3650.",
    )
    kms_key: LogsKey | None = Field(
        default=None,
        description="Encrypt with a KMS key. `create` makes one, about $1 per month idle (GCP: about $0.06).",
    )
    archive: Literal["bucket", "bigquery"] | None = Field(
        default=None,
        description="`bucket`: copy every line to a bucket, on AWS the job store (under logs/, through Firehose), on "
        "GCP a separate one. `bigquery`: to a BigQuery dataset, GCP only. Billed per GB, nothing idle.",
    )


class StackConfig(Model):
    """The keys ``tidemill:<field>`` of a stack file."""

    team: Name = Field(description="The team that owns the pipeline: the trust boundary, and a tag on every resource.")
    environment: Name = Field(description="Which of the team's pipelines: dev, prod.")
    cloud: CloudName = Field(default=DEFAULT, description="The pipeline's cloud.")
    network: Network = Field(
        default=Network(), description="Where machines run.", examples=[{"create": {"egress": "public"}}]
    )
    proxy: Proxy | None = Field(
        default=None,
        description="A forward proxy for machines and jobs. Leave out for none. As the default of this key in "
        "Pulumi.yaml it is that of all stacks.",
        examples=[{"url": "http://proxy.example.com:3128", "no_proxy": ["example.com", "10.0.0.0/8"]}],
    )
    certificates: Certificates | None = Field(
        default=None,
        description="Authorities that machines, the worker and jobs trust in addition to the public ones, as PEM: "
        "those of a proxy that opens TLS, or of a registry of your own. On AWS a root or two: user data has no room "
        "for more. As the default of this key in Pulumi.yaml they are those of all stacks.",
    )
    mirrors: Mirrors = Field(
        default={},
        description="Registries whose images machines pull from a mirror, by host: a registry of your company, a "
        "pull-through cache of ECR, or a remote repository of Artifact Registry. As the default of this key in "
        "Pulumi.yaml they are those of all stacks.",
        examples=[
            {"docker.io": "123456789012.dkr.ecr.us-west-2.amazonaws.com/docker-hub"},
            {"docker.io": "us-west1-docker.pkg.dev/example-images/docker-hub"},
        ],
    )
    data: Data = Field(
        default=Data(),
        description="Buckets that jobs may use in addition to the job store.",
        examples=[
            {"read": ["s3://raw-images"], "write": ["s3://features/vision/"]},
            {"read": ["gs://raw-images"], "write": ["gs://features/vision/"]},
        ],
    )
    store: Store = Field(default=Store(), description="The job store.")
    registry: Registry = Field(default=Registry(), description="The team's image repositories.")
    logs: Logs = Field(default=Logs(), description="The workers' log lines.")
    disks: Disks = Field(default=Disks(), description="The machines' disks.", examples=[{"kms_key": "create"}])
    topics: Topics = Field(default=Topics(), description="The queues' topics on GCP.", examples=[{"kms_key": "create"}])
    monitoring: Monitoring = Field(
        default=Monitoring(),
        description="A dashboard, and alarms for the people who must know.",
        examples=[
            {"notify": ["ml-oncall@example.com"], "failed_percent": 10},
            {"notify": ["ml-oncall@example.com"], "dashboard": True},
        ],
    )
    budget: Budget | None = Field(
        default=None,
        description="A monthly budget with notices by e-mail, which costs nothing. Leave out for none.",
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
        description="The worker's image by digest, as `make worker PUSH=REGISTRY` prints it; it runs with any image "
        "of the queues. Leave out if the images contain `tidemill` themselves.",
        examples=[f"registry://tidemill-worker@sha256:{64 * '0'}"],
    )
    worker_image_arm64: str | None = Field(
        default=None,
        description="The same for machines with arm64 processors, as `make worker ARCH=arm64 PUSH=REGISTRY` prints it.",
        examples=[f"registry://tidemill-worker@sha256:{64 * '0'}"],
    )
    queues: dict[Name, Queue] = Field(
        min_length=1,
        max_length=50,
        description="The queues, by the name that users type. AWS allows 50 per account and region, for all stacks.",
    )
    file_systems: dict[Name, FileSystem] = Field(
        default={},
        max_length=10,
        description="File systems that the stack makes, by the name that `mounts` gives. Each is billed between jobs "
        "as well; docs/data.md compares them with the object store.",
        examples=[{"shared": {"infrequent_after_days": 30}}, {"shared": {"tier": "basic_hdd", "zone": "a"}}],
    )
    schedules: dict[Name, Schedule] = Field(
        default={},
        max_length=50,
        description="Templates that are sent at times, by the schedule's name. They need `worker_image`, which the "
        "sender is in.",
        examples=[{"nightly": {"template": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}}],
    )
    arrivals: dict[Name, Arrival] = Field(
        default={},
        max_length=20,
        description="Templates that are sent when files have arrived, by a name of your choice. They need "
        "`worker_image`, which the sender is in.",
        examples=[
            {"tiles": {"template": "tiles", "prefix": "s3://raw-images/new/"}},
            {"tiles": {"template": "tiles", "prefix": "gs://raw-images/new/"}},
        ],
    )
    access: Access = Field(
        default=Access(),
        description="Who may submit, and what submitters may ask.",
        examples=[
            {"submitters": ["arn:aws:iam::123456789012:role/vision-engineers"], "advise": True},
            {"submitters": ["group:vision-engineers@example.com"]},
        ],
    )
    imports: Imports = Field(
        default=Imports(),
        description="Existing resources to import.",
        examples=[{"store": "vision-results"}],
    )
    permission_boundary: (
        Annotated[Text, from_resource(POLICY, "the ARN of an IAM policy", "permission_boundary")] | None
    ) = Field(
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

    tags: dict[str, str] = Field(
        default={},
        description="Your company's own tags (on GCP labels) of everything that the stack makes, machines, volumes and "
        "network interfaces included. They are added to those of `environment_tags`; where both have a key, this "
        "one's value counts. Quote numbers.",
        examples=[
            {"CostCenter": "4711", "Owner": "vision@example.com"},
            {"cost-center": "4711", "owner": "vision"},
        ],
    )
    environment_tags: dict[Name, dict[CloudName, dict[str, str]]] = Field(
        default={},
        description="The same for all stacks of an environment, by environment and cloud, because the clouds spell "
        "keys differently. It belongs into Pulumi.yaml, as the default of this key; a stack file that sets it "
        "replaces that default. Quote numbers.",
        examples=[{"prod": {DEFAULT: {"CostCenter": "4711"}}}],
    )
    overrides: dict[
        Annotated[str, matching(re.compile(r"\S(.*\S)?"), "the name of a resource, as the preview shows it", 300)],
        Annotated[dict[str, Any], Field(min_length=1)],
    ] = Field(
        default={},
        max_length=50,
        description="Extra properties of single resources, for what no key covers, by the resource's name in the "
        "preview; where several types share a name, Type/name. Properties are spelled as in the preview; mappings are "
        "merged, null removes a property, any other value replaces it. The policy pack checks the result, and the "
        "review lists each. A later version may set the same property.",
        examples=[{"vision-dev-store-bucket": {"forceDestroy": False}}],
    )
    waivers: list[Waiver] = Field(
        default=[],
        max_length=50,
        description="Rules of the policy pack that this stack may temporarily violate, each with a reason and a last "
        "day; the review shows them.",
    )

    _checked: bool = PrivateAttr(default=False)

    def checked(self) -> Self:
        """Itself, as one that keeps the rules between its keys."""
        self._checked = True
        return self

    @property
    def is_checked(self) -> bool:
        """True if it has the defaults of its cloud and keeps the rules between its keys, as `parse` returns it."""
        return self._checked

    @property
    def worker_images(self) -> dict[str, str]:
        given = {"worker_image": self.worker_image, "worker_image_arm64": self.worker_image_arm64}
        return {key: image for key, image in given.items() if image}

    def worker_of(self, architecture: str) -> str | None:
        """The worker's image for machines of an architecture; None if the queues' images contain the worker."""
        return self.worker_image_arm64 if architecture == "arm64" else self.worker_image

    @property
    def extra_services(self) -> list[str]:
        """The AWS services of secrets and of topics, which need interface endpoints if there is no internet."""
        secrets = [arn for queue in self.queues.values() for arn in queue.secrets.values()]
        # What an output is of is known before its value.
        arns = [arn if is_plain(arn) else ":secretsmanager:" for arn in secrets]
        arns += [":secretsmanager:"] if self.access.personal_secrets else []
        arns += [arn if is_plain(arn) else ":sns:" for arn in self.monitoring.job_channels.values()]
        return [service for service in ("secretsmanager", "sns", "ssm") if any(f":{service}:" in arn for arn in arns)]

    @property
    def tags_of_environment(self) -> dict[str, str]:
        """The company's tags of all stacks of this environment on this cloud."""
        return self.environment_tags.get(self.environment, {}).get(self.cloud, {})

    @property
    def company_tags(self) -> dict[str, str]:
        """The company's tags of this stack: those of its environment, and over them its own."""
        return {**self.tags_of_environment, **self.tags}

    @property
    def sends(self) -> bool:
        """True if templates are sent without a person, so that there is a sender."""
        return bool(self.schedules or self.arrivals)

    @property
    def may_replace(self) -> bool:
        """True if resources that machines run in may be replaced or deleted."""
        return bool(self.allow)

    @property
    def may_purge(self) -> bool:
        """True if buckets and registries may be deleted with their contents."""
        return "purge" in self.allow
