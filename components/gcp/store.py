"""The job store: the team's own bucket."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from tidemill import layout

from ..base import as_args, child_name, token
from ..config import Store, part
from .checks import check_store
from .conditions import condition, objects
from .key import key_name
from .member import Member, grant
from .project import Project

_JOBS, _UPLOADS, _OUT, _FLEET = (f"{name}/" for name in (layout.JOBS, layout.UPLOADS, layout.OUT, layout.FLEET))
_STATE, _TEMPLATES, _SENDS = (f"{name}/" for name in (layout.STATE, layout.TEMPLATES, layout.SENDS))
_DAY = 24 * 3600
_ERROR_DAYS = 7
_READ = "roles/storage.objectViewer"
_CREATE = "roles/storage.objectCreator"
_WRITE = "roles/storage.objectUser"
"""Create, read, list and overwrite: the ledger overwrites its marks, which needs the permission to delete.
Source: https://cloud.google.com/storage/docs/access-control/iam-roles"""


@dataclass
class GcpStoreArgs:
    """Arguments of `GcpStore`."""

    expire_jobs_after_days: int | None = None
    """Days after which objects under ``jobs/`` and ``uploads/`` are deleted; None keeps them."""
    expire_state_after_days: int = 30
    """Days after which objects under ``state/`` are deleted."""
    kms_key: pulumi.Input[str] | None = None
    """Full name of a Cloud KMS key, or `create` for a new one; None: Google's own encryption."""
    versioning: bool = False
    """Keep overwritten objects for 30 days."""
    soft_delete_days: int = 7
    """Days for which a deleted or overwritten object can be restored."""
    purge: bool = False
    """Lift the protection, and delete the bucket with its contents."""
    imported: str | None = None
    """Name of an existing bucket to import: it keeps its name and outlives the stack."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpStore(pulumi.ComponentResource):
    """A closed, encrypted, protected bucket that holds jobs, results and the descriptor.

    Makes: bucket with uniform access, enforced public access prevention, soft delete and lifecycle rules; with
    `kms_key` of `create` a key ring, a key and the storage service agent's grant on it; `publish` adds the object
    ``pipeline.json``; each grant is a conditional binding on prefixes of the bucket.

    Costs while idle: storage, about $0.02 per GB and month, including deleted objects while they can be restored; its
    own key about $0.06 per month and version, a new one every 90 days.

    Example:
        ```python
        store = GcpStore("vision-dev-store", GcpStoreArgs(expire_jobs_after_days=90))
        pulumi.export("store", store.uri)
        ```
    """

    bucket: pulumi.Output[str]
    """The bucket's name."""
    uri: pulumi.Output[str]
    """``gs://<bucket>``."""
    kms_key: pulumi.Output[str] | None
    """The objects' key; None for Google's own encryption."""

    def __init__(self, name: str, args: GcpStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpStoreArgs, args)
        super().__init__(token(GcpStore), name, None, opts)
        wanted = ("expire_jobs_after_days", "expire_state_after_days", "kms_key", "versioning", "soft_delete_days")
        check_store(part(Store, {key: getattr(args, key) for key in wanted}, "store"))
        self._child = pulumi.ResourceOptions(parent=self)
        project = Project(self)
        self.kms_key = None
        if args.kms_key is not None:
            agent = Member("storage", project.agent("gs-project-accounts"))
            self.kms_key = key_name(self, args.kms_key, project, agent, args.labels, purge=args.purge)
        bucket = self._bucket(name, args, project)
        self.bucket = bucket.name
        self.uri = pulumi.Output.concat("gs://", bucket.name)
        self.register_outputs({"bucket": self.bucket, "uri": self.uri})

    def _bucket(self, name: str, args: GcpStoreArgs, project: Project) -> gcp.storage.Bucket:
        encryption = None
        if self.kms_key is not None:
            encryption = gcp.storage.BucketEncryptionArgs(default_kms_key_name=self.kms_key)
        return gcp.storage.Bucket(
            child_name(f"{name}-bucket", args.imported),
            name=args.imported,
            location=project.region,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(
                retention_duration_seconds=args.soft_delete_days * _DAY
            ),
            # Set in both cases: without a value the cloud keeps the old one.
            versioning=gcp.storage.BucketVersioningArgs(enabled=args.versioning),
            lifecycle_rules=_rules(args),
            encryption=encryption,
            force_destroy=args.purge,
            labels=args.labels,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=not args.purge,
                import_=args.imported,
                retain_on_delete=args.imported is not None or not args.purge,
            ),
        )

    def publish(self, descriptor: pulumi.Input[str]) -> pulumi.Output[str]:
        """Write the descriptor's JSON as ``pipeline.json``; returns its URI."""
        written = gcp.storage.BucketObject(
            f"{self.pulumi_resource_name}-pipeline",
            bucket=self.bucket,
            name=layout.DESCRIPTOR,
            content=descriptor,
            content_type="application/json",
            opts=self._child,
        )
        return pulumi.Output.concat(self.uri, "/", written.name)

    def grant_work(self, member: Member) -> None:
        """Let a member work as machines do: read and write ``jobs/``, ``out/`` and ``state/``, and read
        ``uploads/``, but no descriptor. In ``fleet/`` it says that it lives or why it cannot, and reads who stays."""
        self._list(member)
        self._grant("work", member, _WRITE, [_JOBS, _OUT, f"{layout.FLEET_ALIVE}/"])
        self._grant("errors", member, _CREATE, [f"{layout.FLEET_ERRORS}/"])
        self._grant("state", member, _WRITE, [_STATE])
        self._grant("uploads", member, _READ, [_UPLOADS])
        self._grant("warm", member, _READ, [f"{layout.FLEET_WARM}/"])

    def grant_submit(self, member: Member) -> None:
        """Let a member submit: write ``jobs/``, ``uploads/`` and ``fleet/held/``, read ``out/``, ``state/``, ``fleet/``
        and the descriptor; and save and send templates: create and read objects in ``templates/`` and ``sends/``, but
        change none."""
        self._list(member)
        self._grant("submit", member, _WRITE, [_JOBS])
        self._grant("upload", member, _WRITE, [_UPLOADS])
        self._grant("look-state", member, _READ, [_STATE])
        self._grant("look", member, _READ, [_OUT, _FLEET], [layout.DESCRIPTOR])
        self._grant("hold", member, _WRITE, [f"{layout.FLEET_HELD}/"])
        self._grant("save", member, _CREATE, [_TEMPLATES, _SENDS])
        self._grant("look-sends", member, _READ, [_TEMPLATES, _SENDS])

    def grant_send(self, member: Member) -> None:
        """Let a member send templates: write ``jobs/`` and ``fleet/held/``, create notes in ``sends/`` but change none,
        and read ``templates/``, ``uploads/``, ``out/`` and the descriptor."""
        self._list(member)
        self._grant("submit", member, _WRITE, [_JOBS])
        self._grant("hold", member, _WRITE, [f"{layout.FLEET_HELD}/"])
        self._grant("note", member, _CREATE, [_SENDS])
        self._grant("look", member, _READ, [_TEMPLATES, _SENDS, _UPLOADS, _OUT], [layout.DESCRIPTOR])

    def grant_fleet(self, member: Member) -> None:
        """Let a member write reports on the fleet, under ``fleet/``, and let jobs begin that wait for others: read
        ``jobs/``, and create objects there, but overwrite none."""
        self._grant("fleet", member, _WRITE, [_FLEET])
        self._grant("jobs", member, _READ, [_JOBS])
        self._grant("begin", member, _CREATE, [_JOBS])

    def _list(self, member: Member) -> None:
        """Let a member list all objects: without that a missing object gives 403, not 404.

        Source: https://cloud.google.com/storage/docs/access-control/iam-permissions (storage.objects.list)
        """
        role = "roles/storage.legacyBucketReader"
        grant(self, gcp.storage.BucketIAMMember, "list", member, role, bucket=self.bucket)

    def _grant(self, what: str, member: Member, role: str, prefixes: Sequence[str], names: Sequence[str] = ()) -> None:
        where = condition(f"tidemill-{what}", objects(self.bucket, prefixes, names))
        grant(self, gcp.storage.BucketIAMMember, what, member, role, bucket=self.bucket, condition=where)


def _rules(args: GcpStoreArgs) -> list[gcp.storage.BucketLifecycleRuleArgs]:
    # Parts of abandoned uploads are billed but invisible in listings; objects are not affected.
    rules = [_rule("AbortIncompleteMultipartUpload", age=7)]
    if args.expire_jobs_after_days is not None:
        days, folders = args.expire_jobs_after_days, [_JOBS, _UPLOADS]
        rules.append(_rule("Delete", age=days, matches_prefixes=folders, with_state="LIVE"))
    # Reports of machines are useful for a day; a live worker repeats its report every few minutes.
    rules.append(_rule("Delete", age=_ERROR_DAYS, matches_prefixes=[f"{layout.FLEET_ERRORS}/"]))
    rules.append(_rule("Delete", age=1, matches_prefixes=[f"{layout.FLEET_ALIVE}/"]))
    if args.versioning:
        rules.append(_rule("Delete", days_since_noncurrent_time=30, with_state="ARCHIVED"))
    rules.append(_rule("Delete", age=args.expire_state_after_days, matches_prefixes=[_STATE], with_state="LIVE"))
    return rules


def _rule(action: str, **matches: object) -> gcp.storage.BucketLifecycleRuleArgs:
    return gcp.storage.BucketLifecycleRuleArgs(
        action=gcp.storage.BucketLifecycleRuleActionArgs(type=action),
        condition=gcp.storage.BucketLifecycleRuleConditionArgs(**matches),  # type: ignore[arg-type]
    )
