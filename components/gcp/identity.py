"""The machines' service account, and the submitters' permissions apart from the grants of other parts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from .conditions import condition, objects
from .member import Member, account_id, grant, person, role_id
from .project import Project

WATCH = ("monitoring.timeSeries.list", "serviceusage.services.use")
"""A submitter's permissions on the whole project: to read the backlog's metric (Monitoring's resources have no bindings
of their own), and to use this project's quota for a person's calls.
Sources: https://cloud.google.com/monitoring/access-control, https://cloud.google.com/docs/quotas/quota-project"""

ADVISE = ("compute.advice.capacity", "compute.advice.capacityHistory")
"""Permissions that `access.advise` adds: to ask how likely Spot machines are to be there, how often they are reclaimed,
and their prices. Both methods are about the project alone.
Source: https://docs.cloud.google.com/compute/docs/instances/view-vm-availability"""

_MACHINE_ROLES = ("roles/logging.logWriter",)
"""The machines' permission on the whole project: Cloud Logging has no narrower binding for writing."""

_REPOSITORY = re.compile(r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/")


@dataclass
class GcpIdentityArgs:
    """Arguments of `GcpIdentity`."""

    submitters: list[str] = field(default_factory=list)
    """Principals that may submit: `user:`, `group:` or `serviceAccount:` and an address."""
    advise: bool = False
    """True if submitters may ask for advice on the capacity of Spot machines."""


class GcpIdentity(pulumi.ComponentResource):
    """The machines' service account and the submitters' role.

    It has no keys, no primitive roles and no Compute Engine permissions, and is not the default account: a machine
    leaves by powering itself off. Other components grant the account's other permissions.

    Makes: a service account with the role to write log lines; if there are submitters, a custom role to read the
    project's metrics, use its quota and, if they may, ask for advice, bound to each of them. `keep_secrets` adds a
    secret with its grants. Grants of data, secrets and other registries add a binding each.

    Costs while idle: nothing; with `keep_secrets` about $0.06 per month.

    Example:
        ```python
        identity = GcpIdentity("vision-dev-identity", GcpIdentityArgs(submitters=["group:vision@example.com"]))
        GcpStore("vision-dev-store", GcpStoreArgs()).grant_work(identity.worker)
        pulumi.export("machines", identity.email)
        ```
    """

    email: pulumi.Output[str]
    """Address of the machines' service account."""

    def __init__(self, name: str, args: GcpIdentityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpIdentityArgs, args)
        super().__init__(token(GcpIdentity), name, None, opts)
        self._child = pulumi.ResourceOptions(parent=self)
        self._project = Project(self)
        stem = name.removesuffix("-identity")
        account = gcp.serviceaccount.Account(
            f"{name}-worker",
            account_id=account_id(stem, "worker"),
            display_name=f"Tidemill: machines of {stem}",
            opts=self._child,
        )
        self.email = account.email
        # Members of grants.
        self.worker = Member("worker", pulumi.Output.concat("serviceAccount:", account.email))
        for role in _MACHINE_ROLES:
            what = role.rpartition(".")[2].lower()
            self._project.bind(f"{name}-worker-{what}", role, self.worker.principal, self._child)
        self.submitters = [person(principal) for principal in args.submitters]
        if self.submitters:
            self._watch(stem, [*WATCH, *(ADVISE if args.advise else ())])
        self.register_outputs({"email": self.email})

    def _watch(self, stem: str, permissions: list[str]) -> None:
        role = gcp.projects.IAMCustomRole(
            f"{self.pulumi_resource_name}-submitter",
            role_id=role_id(stem, "submitter"),
            title=f"Tidemill: submitters of {stem}",
            permissions=permissions,
            opts=self._child,
        )
        for member in self.submitters:
            name = f"{self.pulumi_resource_name}-watch-{member.name}"
            self._project.bind(name, role.name, member.principal, self._child)

    def grant_data(self, member: Member, read: Sequence[str], write: Sequence[str]) -> None:
        """Let a member use the team's declared data: ``gs://bucket/prefix`` URIs to read, or to read and write."""
        for what, role, uris in (
            ("read", "roles/storage.objectViewer", read),
            ("write", "roles/storage.objectUser", write),
        ):
            for bucket, prefixes in _prefixes(uris).items():
                for number, some in enumerate(_batches(prefixes)):
                    self._bucket(f"{what}-{bucket}{f'-{number}' if number else ''}", bucket, role, some, member)

    def _bucket(self, what: str, bucket: str, role: str, prefixes: Sequence[str], member: Member) -> None:
        where = None if "" in prefixes else condition("tidemill-data", objects(bucket, prefixes))
        grant(self, gcp.storage.BucketIAMMember, what, member, role, bucket=bucket, condition=where)

    def grant_secrets(self, member: Member, secrets: Sequence[str]) -> None:
        """Let a member read secrets of Secret Manager, by full names with or without a version."""
        for name in sorted({secret.partition("/versions/")[0] for secret in secrets}):
            _, project, _, secret = name.split("/")
            what, role = f"secret-{project}-{secret}", "roles/secretmanager.secretAccessor"
            grant(self, gcp.secretmanager.SecretIamMember, what, member, role, project=project, secret_id=secret)

    def keep_secrets(self, labels: Mapping[str, str] | None = None) -> pulumi.Output[str]:
        """Make the secret that holds the submitters' personal secrets, for them to change and for machines to read.

        Returns:
            Its full name, `projects/<project>/secrets/<id>`.
        """
        stem = self.pulumi_resource_name.removesuffix("-identity")
        secret = gcp.secretmanager.Secret(
            f"{self.pulumi_resource_name}-secrets",
            secret_id=f"{stem}-personal",
            replication=gcp.secretmanager.SecretReplicationArgs(auto=gcp.secretmanager.SecretReplicationAutoArgs()),
            labels=labels,
            opts=self._child,
        )
        read, write = "roles/secretmanager.secretAccessor", "roles/secretmanager.secretVersionManager"
        granted = [(self.worker, read), *((each, role) for each in self.submitters for role in (read, write))]
        for member, role in granted:
            what = f"personal-{role.rpartition('.')[2].lower()}"
            grant(self, gcp.secretmanager.SecretIamMember, what, member, role, secret_id=secret.secret_id)
        return pulumi.Output.concat("projects/", self._project.id, "/secrets/", secret.secret_id)

    def grant_publish(self, member: Member, topics: Sequence[str]) -> None:
        """Let a member publish to topics, by full name."""
        for name in sorted(set(topics)):
            _, project, _, topic = name.split("/")
            what, role = f"publish-{project}-{topic}", "roles/pubsub.publisher"
            grant(self, gcp.pubsub.TopicIAMMember, what, member, role, project=project, topic=topic)

    def grant_external_pull(self, member: Member, images: Sequence[str]) -> None:
        """Let a member pull from Artifact Registry repositories outside the stack, by image references."""
        repositories = sorted({match.groups() for image in images if (match := _REPOSITORY.match(image))})
        for location, project, repository in repositories:
            on = {"project": project, "location": location, "repository": repository}
            self._pull(f"pull-{project}-{location}-{repository}", member, **on)

    def grant_shared_pull(self, member: Member, repository: pulumi.Input[str], location: pulumi.Input[str]) -> None:
        """Let a member list and pull every image of the shared registry, by its repository's full name."""
        self._pull("pull-shared", member, location=location, repository=repository)

    def _pull(self, what: str, member: Member, **on: pulumi.Input[str]) -> None:
        grant(self, gcp.artifactregistry.RepositoryIamMember, what, member, "roles/artifactregistry.reader", **on)


_MOST_PREFIXES = 6


def _batches(prefixes: Sequence[str]) -> list[Sequence[str]]:
    """Prefixes in groups that fit one condition; all objects (an empty prefix) need none."""
    if "" in prefixes:
        return [[""]]
    return [prefixes[start : start + _MOST_PREFIXES] for start in range(0, len(prefixes), _MOST_PREFIXES)]


def _prefixes(uris: Sequence[str]) -> Mapping[str, list[str]]:
    by_bucket: dict[str, list[str]] = {}
    for uri in uris:
        bucket, _, prefix = uri.removeprefix("gs://").partition("/")
        by_bucket.setdefault(bucket, []).append(prefix)
    return {bucket: sorted(set(prefixes)) for bucket, prefixes in by_bucket.items()}
