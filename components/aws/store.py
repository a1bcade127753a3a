"""The job store: the team's own bucket."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from tidemill import layout

from ..base import as_args, child_name, object_tags, token
from ..config import Store, part
from . import key
from .account import account_of
from .checks import check_store
from .policy import Statement, allow, document, grant

_PUT = ["s3:AbortMultipartUpload", "s3:PutObject"]


@dataclass
class AwsStoreArgs:
    """Arguments of `AwsStore`."""

    expire_jobs_after_days: int | None = None
    """Days after which objects under ``jobs/`` and ``uploads/`` are deleted; None keeps them."""
    expire_state_after_days: int = 30
    """Days after which objects under ``state/`` are deleted."""
    kms_key: pulumi.Input[str] | None = None
    """ARN of a KMS key, or `create` for a new one; None: S3's own encryption."""
    versioning: bool = False
    """Keep overwritten objects for 30 days."""
    purge: bool = False
    """Lift the protection, and delete the bucket with its contents."""
    imported: str | None = None
    """Name of an existing bucket to import: it keeps its name and outlives the stack."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""
    region: str | None = None
    """Another region than the provider's."""


class AwsStore(pulumi.ComponentResource):
    """A closed, encrypted, protected bucket that holds jobs, results and the descriptor.

    Makes: bucket, its public access block, ownership controls, encryption, TLS-only policy and lifecycle rules;
    with `versioning` its versioning, with `kms_key` of `create` a KMS key and an alias; `publish` adds the object
    ``pipeline.json``.

    Costs while idle: storage, about $0.023 per GB and month; its own KMS key about $1 per month.

    Example:
        ```python
        store = AwsStore("vision-dev-store", AwsStoreArgs(expire_jobs_after_days=90))
        pulumi.export("store", store.uri)
        ```
    """

    bucket: pulumi.Output[str]
    """The bucket's name."""
    arn: pulumi.Output[str]
    """The bucket's ARN."""
    uri: pulumi.Output[str]
    """``s3://<bucket>``."""
    key_arn: pulumi.Output[str] | None
    """The objects' KMS key; None for S3's own encryption."""

    def __init__(self, name: str, args: AwsStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsStoreArgs, args)
        super().__init__(token(AwsStore), name, None, opts)
        wanted = ("expire_jobs_after_days", "expire_state_after_days", "kms_key", "versioning")
        check_store(part(Store, {key: getattr(args, key) for key in wanted}, "store"))
        self._child = pulumi.ResourceOptions(parent=self)
        self._tags = args.tags
        self._region = args.region
        self.key_arn = key.key_arn(
            self, args.kms_key, account_of(self), args.tags, purge=args.purge, region=args.region
        )
        bucket = aws.s3.Bucket(
            child_name(f"{name}-bucket", args.imported),
            bucket=args.imported,
            region=args.region,
            force_destroy=args.purge,
            tags=args.tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=not args.purge,
                import_=args.imported,
                retain_on_delete=args.imported is not None,
            ),
        )
        self.bucket, self.arn = bucket.bucket, bucket.arn
        self.uri = pulumi.Output.concat("s3://", bucket.bucket)
        self._close(name)
        self._encrypt(name)
        self._keep(name, args)
        self.register_outputs({"bucket": self.bucket, "arn": self.arn, "uri": self.uri})

    def _close(self, name: str) -> None:
        block = aws.s3.BucketPublicAccessBlock(
            f"{name}-access",
            bucket=self.bucket,
            region=self._region,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self._child,
        )
        aws.s3.BucketOwnershipControls(
            f"{name}-ownership",
            bucket=self.bucket,
            region=self._region,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=self._child,
        )
        tls_only: Statement = {
            "Sid": "TlsOnly",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [self.arn, self.objects("*")],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
        aws.s3.BucketPolicy(
            f"{name}-policy",
            bucket=self.bucket,
            region=self._region,
            policy=document([tls_only]),
            # S3 refuses one of two concurrent calls that change a bucket's access.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[block]),
        )

    def _encrypt(self, name: str) -> None:
        default = aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
            sse_algorithm="AES256" if self.key_arn is None else "aws:kms", kms_master_key_id=self.key_arn
        )
        rule = aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
            apply_server_side_encryption_by_default=default, bucket_key_enabled=self.key_arn is not None
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            f"{name}-encryption", bucket=self.bucket, region=self._region, rules=[rule], opts=self._child
        )

    def _keep(self, name: str, args: AwsStoreArgs) -> None:
        rules = [_unfinished_uploads()]
        if args.expire_jobs_after_days is not None:
            rules += [_expire(folder, args.expire_jobs_after_days) for folder in (layout.JOBS, layout.UPLOADS)]
        if args.versioning:
            aws.s3.BucketVersioning(
                f"{name}-versioning",
                bucket=self.bucket,
                region=self._region,
                versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
                opts=self._child,
            )
            rules.append(_expire_overwritten())
        rules.append(_expire(layout.STATE, args.expire_state_after_days))
        aws.s3.BucketLifecycleConfiguration(
            f"{name}-lifecycle", bucket=self.bucket, region=self._region, rules=rules, opts=self._child
        )

    def objects(self, pattern: str) -> pulumi.Output[str]:
        """ARN of the objects that match a pattern such as ``jobs/*``."""
        return pulumi.Output.concat(self.arn, "/", pattern)

    def _below(self, folder: str) -> pulumi.Output[str]:
        return self.objects(f"{folder}/*")

    def publish(self, descriptor: pulumi.Input[str]) -> pulumi.Output[str]:
        """Write the descriptor's JSON as ``pipeline.json``; returns its URI."""
        written = aws.s3.BucketObjectv2(
            f"{self.pulumi_resource_name}-pipeline",
            bucket=self.bucket,
            region=self._region,
            key=layout.DESCRIPTOR,
            content=descriptor,
            content_type="application/json",
            tags=object_tags(self._tags),
            opts=self._child,
        )
        return pulumi.Output.concat(self.uri, "/", written.key)

    def work_statements(self) -> list[Statement]:
        """A job's permissions: read and write ``jobs/``, ``out/`` and ``state/``, read ``uploads/``; no delete, no
        descriptor, no other prefix."""
        objects = [self._below(folder) for folder in (layout.JOBS, layout.OUT, layout.STATE)]
        read_only = allow(["s3:GetObject"], [self._below(layout.UPLOADS)])
        return [allow(["s3:GetObject", *_PUT], objects), read_only, self._list(), *self._use_key]

    def submit_statements(self) -> list[Statement]:
        """A submitter's permissions: read the descriptor, ``out/`` and ``state/``, read and write ``jobs/`` and
        ``uploads/``.

        IAM limits the length of the submitters' policy, so no object is named twice.
        """
        return [
            allow(["s3:GetObject"], [self.objects(layout.DESCRIPTOR), *map(self._below, (layout.OUT, layout.STATE))]),
            allow(["s3:GetObject", *_PUT], [self._below(layout.JOBS), self._below(layout.UPLOADS)]),
            self._list(),
            *self._use_key,
        ]

    def template_statements(self) -> list[Statement]:
        """A submitter's permissions to save templates and send them by hand."""
        return [allow(["s3:GetObject", *_PUT], [self._below(layout.TEMPLATES), self._below(layout.SENDS)])]

    def grant_send(self, role: aws.iam.Role) -> None:
        """Let a role send templates: read the descriptor and them, and read and write ``jobs/`` and ``sends/``. It
        reads no results, no state and no files of people, and deletes nothing."""
        read = [self.objects(layout.DESCRIPTOR), self._below(layout.TEMPLATES)]
        written = [self._below(layout.JOBS), self._below(layout.SENDS)]
        statements = [allow(["s3:GetObject"], read), allow(["s3:GetObject", *_PUT], written)]
        grant(self, "send", role, [*statements, self._list(), *self._use_key])

    @property
    def _use_key(self) -> list[Statement]:
        return key.use_keys([] if self.key_arn is None else [self.key_arn])

    def _list(self) -> Statement:
        """List the team's own store, without a condition on the prefix.

        A GET has no `s3:prefix`. With such a condition S3 answers 403 instead of 404 for an absent object, and each
        check for one needs an additional listing: twelve times the price of the GET.
        Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, "Permissions".
        """
        return allow(["s3:ListBucket"], [self.arn])

    def grant_work(self, role: aws.iam.Role) -> None:
        """Let a role do what jobs do."""
        grant(self, "work", role, self.work_statements())

    def grant_machines(self, role: aws.iam.Role) -> None:
        """Let a role read the name of the worker that machines fetch, and nothing else; no job may write it."""
        grant(self, "machines", role, [allow(["s3:GetObject"], [self._below(layout.MACHINES)])])


def _rule(rule: str, **settings: object) -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    return aws.s3.BucketLifecycleConfigurationRuleArgs(id=rule, status="Enabled", **settings)  # type: ignore[arg-type]


def _under(prefix: str) -> aws.s3.BucketLifecycleConfigurationRuleFilterArgs:
    return aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=prefix)


def _unfinished_uploads() -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    """Deletes parts of abandoned uploads, which are billed but invisible in listings; objects are not affected."""
    abort = aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(days_after_initiation=7)
    return _rule("unfinished-uploads", filter=_under(""), abort_incomplete_multipart_upload=abort)


def _expire(folder: str, days: int) -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    expiration = aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(days=days)
    return _rule(f"expire-{folder}", filter=_under(f"{folder}/"), expiration=expiration)


def _expire_overwritten() -> aws.s3.BucketLifecycleConfigurationRuleArgs:
    older = aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(noncurrent_days=30)
    return _rule("expire-overwritten", filter=_under(""), noncurrent_version_expiration=older)
