"""The workers' log bucket and archive."""

from dataclasses import dataclass, field

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from ..config import Logs, part
from .checks import check_logs
from .key import key_name
from .member import Member, grant
from .monitoring.line_metrics import metrics
from .project import Project

FAILED_ITEMS = 'jsonPayload.event = "item" AND jsonPayload.status = "failed"'
"""Filter of the worker's JSON lines: each item that failed for good has one line with these fields."""
NOISE = {"debug": 'jsonPayload.level = "debug"'}
"""Filters of lines that are stored nowhere, by the exclusion's name."""

_VIEW = "_AllLogs"
"""Every log bucket has it. Source: https://cloud.google.com/logging/docs/logs-views"""


@dataclass
class GcpLogsArgs:
    """Arguments of `GcpLogs`."""

    retention_days: int = 14
    """Days to keep lines, 1 to 3650."""
    kms_key: pulumi.Input[str] | None = None
    """Full name of a Cloud KMS key that admits Cloud Logging, or `create` for a new one."""
    archive: str | None = None
    """`bucket` or `bigquery`: copy every line to a separate storage bucket or dataset; None makes no archive."""
    exclude: dict[str, str] = field(default_factory=dict)
    """Further lines to store nowhere: filters in the Logging query language, by name."""
    purge: bool = False
    """Lift the protection of the log bucket, the archive and its own key, and delete an archive's contents."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpLogs(pulumi.ComponentResource):
    """A log bucket with retention for the workers' lines, and metrics of what the workers do.

    Makes: log bucket (protected), a sink of this stack's log into it, an exclusion that keeps the same lines out of the
    project's ``_Default`` bucket, five log-based metrics (items that failed so far; by queue, items and failed items of
    complete chunks, reclaims and errors of workers); with `kms_key` of `create` a key ring, a key and the grant on it;
    with an archive a storage bucket or a BigQuery dataset, a sink and its writer's grant on that only.

    Costs while idle: stored lines, nothing for the first 30 days and then $0.01 per GB and month; ingestion costs $0.50
    per GB beyond the project's first 50 GB per month. An archive costs its storage; its own key about $0.06 per month
    and version.

    Example:
        ```python
        logs = GcpLogs("vision-dev-logs", GcpLogsArgs(retention_days=30))
        pulumi.export("log_bucket", logs.bucket)
        ```
    """

    bucket: pulumi.Output[str]
    """The log bucket's full name: ``projects/<project>/locations/<location>/buckets/<id>``."""
    log: pulumi.Output[str]
    """The log that workers write to: ``projects/<project>/logs/<id>``."""
    counted: dict[str, pulumi.Output[str]]
    """Names of the metrics of the workers' lines, by what they count."""
    key: pulumi.Output[str] | None
    """Full name of the key of the lines, None for Google's own."""
    archive: pulumi.Output[str] | None
    """The archive's storage bucket or dataset, None without one."""

    def __init__(self, name: str, args: GcpLogsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpLogsArgs, args)
        super().__init__(token(GcpLogs), name, None, opts)
        wanted = {"retention_days": args.retention_days, "kms_key": args.kms_key, "archive": args.archive}
        check_logs(part(Logs, wanted, "logs"))
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        self._kept = pulumi.ResourceOptions(parent=self, protect=not args.purge)
        self._project = Project(self)
        self.log = pulumi.Output.concat("projects/", self._project.id, f"/logs/tidemill-{name}")
        self._filter = pulumi.Output.concat('logName = "', self.log, '"')
        self.key = self._key()
        self.bucket = self._bucket(name, self._exclusion(name))
        self._sink("lines", pulumi.Output.concat("logging.googleapis.com/", self.bucket))
        self._metric(name)
        self.counted = metrics(name, self._filter, self._child)
        self.archive = None
        if args.archive is not None:
            self.archive = self._to_storage(name) if args.archive == "bucket" else self._to_bigquery(name)
        self.register_outputs(
            {"bucket": self.bucket, "log": self.log, "counted": self.counted, "archive": self.archive}
        )

    def _bucket(self, name: str, exclusion: gcp.logging.ProjectExclusion) -> pulumi.Output[str]:
        """The log bucket. Google reserves a deleted id for 7 days and generates none, so the id uses the random suffix
        of the exclusion's name.

        Source: https://cloud.google.com/logging/docs/buckets#delete-bucket
        """
        end = exclusion.name.apply(lambda full: full.rpartition("-")[2])
        key = self.key
        cmek = None if key is None else gcp.logging.ProjectBucketConfigCmekSettingsArgs(kms_key_name=key)
        made = gcp.logging.ProjectBucketConfig(
            f"{name}-bucket",
            project=self._project.id,
            location=self._project.region,
            bucket_id=pulumi.Output.concat(name, "-", end),
            retention_days=self._args.retention_days,
            cmek_settings=cmek,
            opts=pulumi.ResourceOptions(parent=self, protect=not self._args.purge, ignore_changes=["bucketId"]),
        )
        return pulumi.Output.concat(
            "projects/", self._project.id, "/locations/", self._project.region, "/buckets/", made.bucket_id
        )

    def _key(self) -> pulumi.Output[str] | None:
        """The key, which admits Cloud Logging's account for keys in this project.

        Source: https://cloud.google.com/logging/docs/routing/managed-encryption-storage
        """
        if self._args.kms_key is None:
            return None
        settings = gcp.logging.get_project_cmek_settings_output(
            project=self._project.id, opts=pulumi.InvokeOptions(parent=self)
        )
        agent = Member("logging", pulumi.Output.concat("serviceAccount:", settings.service_account_id))
        return key_name(self, self._args.kms_key, self._project, agent, self._args.labels, purge=self._args.purge)

    def _sink(self, what: str, destination: pulumi.Input[str], *, partitioned: bool = False) -> gcp.logging.ProjectSink:
        """A sink of the workers' lines; into a log bucket of the same project it needs no grant.

        Source: https://cloud.google.com/logging/docs/export/configure_export_v2#dest-auth
        """
        options = gcp.logging.ProjectSinkBigqueryOptionsArgs(use_partitioned_tables=True) if partitioned else None
        return gcp.logging.ProjectSink(
            f"{self.pulumi_resource_name}-{what}",
            destination=destination,
            filter=self._filter,
            exclusions=[
                gcp.logging.ProjectSinkExclusionArgs(name=name, filter=lines)
                for name, lines in sorted({**NOISE, **self._args.exclude}.items())
            ],
            bigquery_options=options,
            unique_writer_identity=True,
            opts=self._child,
        )

    def _exclusion(self, name: str) -> gcp.logging.ProjectExclusion:
        """Prevents ingesting and billing every line twice: `_Default` also gets the lines of other sinks."""
        return gcp.logging.ProjectExclusion(
            f"{name}-default",
            description="Workers' lines have a bucket of their own",
            filter=self._filter,
            opts=self._child,
        )

    def _metric(self, name: str) -> None:
        gcp.logging.Metric(
            f"{name}-failed-items",
            description="Items that failed for good",
            filter=pulumi.Output.concat(self._filter, f" AND {FAILED_ITEMS}"),
            metric_descriptor=gcp.logging.MetricMetricDescriptorArgs(metric_kind="DELTA", value_type="INT64", unit="1"),
            opts=self._child,
        )

    def _to_storage(self, name: str) -> pulumi.Output[str]:
        """A separate bucket, because a sink has no prefix. Lines arrive once per hour."""
        archive = gcp.storage.Bucket(
            f"{name}-archive",
            location=self._project.region,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            force_destroy=self._args.purge,
            labels=self._args.labels,
            opts=pulumi.ResourceOptions(
                parent=self, protect=not self._args.purge, retain_on_delete=not self._args.purge
            ),
        )
        sink = self._sink("archive", pulumi.Output.concat("storage.googleapis.com/", archive.name))
        gcp.storage.BucketIAMMember(
            f"{name}-archive-writer",
            bucket=archive.name,
            role="roles/storage.objectCreator",
            member=sink.writer_identity,
            opts=self._child,
        )
        return archive.name

    def _to_bigquery(self, name: str) -> pulumi.Output[str]:
        archive = gcp.bigquery.Dataset(
            f"{name}-archive",
            dataset_id=name.replace("-", "_"),
            location=self._project.region,
            delete_contents_on_destroy=self._args.purge,
            labels=self._args.labels,
            opts=self._kept,
        )
        dataset = pulumi.Output.concat("projects/", self._project.id, "/datasets/", archive.dataset_id)
        sink = self._sink("archive", pulumi.Output.concat("bigquery.googleapis.com/", dataset), partitioned=True)
        gcp.bigquery.DatasetIamMember(
            f"{name}-archive-writer",
            dataset_id=archive.dataset_id,
            role="roles/bigquery.dataEditor",
            member=sink.writer_identity,
            opts=self._child,
        )
        return archive.dataset_id

    def grant_read(self, member: Member) -> None:
        """Let a member read the lines of this log bucket and no other.

        Source: https://cloud.google.com/logging/docs/logs-views#grant_access
        """
        view = pulumi.Output.concat('resource.name == "', self.bucket, f'/views/{_VIEW}"')
        on = {
            "project": self._project.id,
            "condition": gcp.projects.IAMMemberConditionArgs(title="tidemill-lines", expression=view),
        }
        grant(self, gcp.projects.IAMMember, "read", member, "roles/logging.viewAccessor", **on)
