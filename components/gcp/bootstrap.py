"""Resources that a Google Cloud project needs once, before the first team's stack."""

from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from .store import GcpStore, GcpStoreArgs

SERVICES = (
    "artifactregistry.googleapis.com",
    "billingbudgets.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudkms.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudscheduler.googleapis.com",
    "compute.googleapis.com",
    "containerscanning.googleapis.com",
    "file.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "pubsub.googleapis.com",
    "run.googleapis.com",
    "secretmanager.googleapis.com",
    "serviceusage.googleapis.com",
    "storage.googleapis.com",
    "sts.googleapis.com",
)
"""Every API that a pipeline, its machines and its submitters call."""
AGENTS = (
    "artifactregistry.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudscheduler.googleapis.com",
    "file.googleapis.com",
    "pubsub.googleapis.com",
)
"""Services whose agents get grants or act for a stack: Google refuses a grant to an agent that does not exist.
Source: https://cloud.google.com/iam/docs/create-service-agents"""


@dataclass
class GcpBootstrapArgs:
    """Arguments of `GcpBootstrap`."""

    services: list[str] = field(default_factory=lambda: list(SERVICES))
    """APIs to enable, except those that are managed elsewhere. They stay enabled when this stack is destroyed."""
    purge: bool = False
    """Lift the protection, and delete the bucket with the state of every stack in it."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpBootstrap(pulumi.ComponentResource):
    """A project's APIs and service agents, and a bucket and key for the state of the teams' stacks.

    `python -m ops quotas --stack STACK` compares the project's quotas with the needs of a stack's queues.

    Makes: an enabled API for each service, the service agents of Pub/Sub, Cloud Functions and Cloud Scheduler, and a
    `GcpStore` with a key and versioning for the state.

    Costs while idle: the key, about $0.06 per month and version, and the state's storage. The Container Scanning API
    bills each image pushed to the project, about $0.26.

    Example:
        ```python
        project = GcpBootstrap("tidemill", GcpBootstrapArgs(labels={"owner": "ml-platform"}))
        pulumi.export("backend_url", project.backend_url)
        pulumi.export("secrets_provider", project.secrets_provider)
        ```
    """

    backend_url: pulumi.Output[str]
    """The argument of `pulumi login`."""
    secrets_provider: pulumi.Output[str]
    """The argument of `pulumi stack init --secrets-provider`."""
    state_bucket: pulumi.Output[str]
    """Name of the bucket with the state."""
    kms_key: pulumi.Output[str]
    """Full name of the key of the state and of its secrets."""

    def __init__(self, name: str, args: GcpBootstrapArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpBootstrapArgs, args)
        super().__init__(token(GcpBootstrap), name, None, opts)
        enabled = {service: self._enable(name, service) for service in args.services}
        agents = [self._agent(name, service, enabled) for service in AGENTS]
        # Looking it up creates the storage service's agent, which the key of the state bucket admits.
        gcp.storage.get_project_service_account(opts=pulumi.InvokeOptions(parent=self))
        store = GcpStore(
            f"{name}-state",
            GcpStoreArgs(kms_key="create", versioning=True, purge=args.purge, labels=args.labels),
            pulumi.ResourceOptions(parent=self, depends_on=[*enabled.values(), *agents]),
        )
        assert store.kms_key is not None
        self.backend_url, self.state_bucket, self.kms_key = store.uri, store.bucket, store.kms_key
        self.secrets_provider = pulumi.Output.concat("gcpkms://", store.kms_key)
        self.register_outputs({"backend_url": self.backend_url, "secrets_provider": self.secrets_provider})

    def _enable(self, name: str, service: str) -> gcp.projects.Service:
        return gcp.projects.Service(
            f"{name}-{service.partition('.')[0]}",
            service=service,
            # Others in the project may use it, so destroying this stack must not disable it.
            disable_on_destroy=False,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _agent(self, name: str, service: str, enabled: dict[str, gcp.projects.Service]) -> gcp.projects.ServiceIdentity:
        needed = [enabled[service]] if service in enabled else []
        return gcp.projects.ServiceIdentity(
            f"{name}-{service.partition('.')[0]}-agent",
            service=service,
            opts=pulumi.ResourceOptions(parent=self, depends_on=needed),
        )
