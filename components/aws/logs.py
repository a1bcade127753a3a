"""The workers' log group."""

import json
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from tidemill import layout

from ..base import as_args, token
from ..config import Logs, part
from .account import account_of
from .checks import check_logs
from .key import key_arn
from .monitoring.metrics import NAMESPACE, metric_filters
from .policy import Statement, allow, grant, trust

INDEXED = ["job", "item", "chunk", "event", "status", "level"]
"""Fields of the worker's lines by which queries skip lines, at most 20; an index costs nothing.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CloudWatchLogs-Field-Indexing.html"""

QUERIES = ["logs:GetQueryResults", "logs:StopQuery"]
"""Calls about a query. They know no resource, but need the query's id, a UUID that only StartQuery and DescribeQueries
tell. https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazoncloudwatchlogs.html"""

_ARCHIVE_PREFIX = f"{layout.LOGS}/"


@dataclass
class AwsLogsArgs:
    """Arguments of `AwsLogs`."""

    retention_days: int = 14
    """Days to keep lines, one of CloudWatch's values."""
    kms_key: pulumi.Input[str] | None = None
    """ARN of a KMS key that admits CloudWatch Logs, or `create` for a new one."""
    metric_namespace: str = NAMESPACE
    """CloudWatch namespace of the workers' metrics."""
    archive_bucket_arn: pulumi.Input[str] | None = None
    """Copy every line to this bucket, under ``logs/``; None makes no archive."""
    archive_kms_key_arn: pulumi.Input[str] | None = None
    """The bucket's encryption key."""
    purge: bool = False
    """Lift the protection of its own key."""
    permission_boundary: pulumi.Input[str] | None = None
    """ARN of a policy that bounds the archive's roles."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsLogs(pulumi.ComponentResource):
    """A log group with retention, and metrics of what the workers do.

    Makes: log group, field index, four metric filters (items, failed items, reclaims and errors of workers, by queue);
    with `kms_key` of `create` a KMS key and an alias; with an archive a Firehose delivery stream and a subscription
    filter, each with a role.

    Costs while idle: stored lines, $0.03 per GB and month; a metric costs $0.30 per month and queue for the hours with
    work, nothing while idle, and ten are free in an account; its own KMS key about $1 per month. The archive is billed
    per GB, nothing idle.

    Example:
        ```python
        logs = AwsLogs("vision-dev-logs", AwsLogsArgs(retention_days=30))
        pulumi.export("log_group", logs.group)
        ```
    """

    group: pulumi.Output[str]
    """The log group's name."""
    arn: pulumi.Output[str]
    """The log group's ARN, without a star."""
    key_arn: pulumi.Output[str] | None
    """ARN of the key of its lines, None for AWS's own."""

    def __init__(self, name: str, args: AwsLogsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsLogsArgs, args)
        super().__init__(token(AwsLogs), name, None, opts)
        check_logs(part(Logs, {"retention_days": args.retention_days, "kms_key": args.kms_key}, "logs"))
        self._account = account_of(self)
        self._child = pulumi.ResourceOptions(parent=self)
        self.key_arn = key_arn(self, args.kms_key, self._account, args.tags, [self._logs_service()], purge=args.purge)
        group = aws.cloudwatch.LogGroup(
            f"{name}-group",
            retention_in_days=args.retention_days,
            kms_key_id=self.key_arn,
            tags=args.tags,
            opts=self._child,
        )
        self.group, self.arn = group.name, group.arn
        aws.cloudwatch.LogIndexPolicy(
            f"{name}-index",
            log_group_name=group.name,
            policy_document=json.dumps({"Fields": INDEXED}),
            opts=self._child,
        )
        metric_filters(name, group.name, args.metric_namespace, self._child)
        if args.archive_bucket_arn is not None:
            self._archive(name, args, pulumi.Output.from_input(args.archive_bucket_arn))
        self.register_outputs({"group": self.group, "arn": self.arn})

    def _logs_service(self) -> Statement:
        """Lets CloudWatch Logs use a key for this account's groups.

        Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
        """
        service = pulumi.Output.concat("logs.", self._account.region, ".", self._account.dns_suffix)
        groups = self._account.arn("logs", "log-group:*")
        # DescribeKey has no encryption context, so this condition would always refuse it.
        return {
            "Effect": "Allow",
            "Principal": {"Service": service},
            "Action": ["kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext",
                       "kms:ReEncryptFrom", "kms:ReEncryptTo"],
            "Resource": "*",
            "Condition": {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        }  # fmt: skip

    def write_statements(self) -> list[Statement]:
        """The log driver's permissions: to create streams of this group and write lines."""
        streams = pulumi.Output.concat(self.arn, ":*")
        return [allow(["logs:CreateLogStream", "logs:PutLogEvents"], [streams])]

    def read_statements(self) -> list[Statement]:
        """A submitter's permissions to read and query this group's lines; `QUERIES` go with them."""
        resources = [self.arn, pulumi.Output.concat(self.arn, ":*")]
        actions = ["logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents", "logs:StartQuery"]
        return [allow(actions, resources)]

    def grant_write(self, role: aws.iam.Role) -> None:
        """Let a role write to this log group and no other."""
        grant(self, "write", role, self.write_statements())

    def grant_read(self, role: aws.iam.Role) -> None:
        """Let a role read this log group and no other."""
        grant(self, "read", role, [*self.read_statements(), allow(QUERIES, ["*"])])

    def _archive(self, name: str, args: AwsLogsArgs, bucket: pulumi.Output[str]) -> None:
        delivery = self._delivery_role(name, args, bucket)
        stream = aws.kinesis.FirehoseDeliveryStream(
            f"{name}-archive",
            destination="extended_s3",
            extended_s3_configuration=aws.kinesis.FirehoseDeliveryStreamExtendedS3ConfigurationArgs(
                bucket_arn=bucket,
                role_arn=delivery.arn,
                prefix=_ARCHIVE_PREFIX,
                error_output_prefix=f"{_ARCHIVE_PREFIX}errors/",
                buffering_interval=300,
                buffering_size=64,
                processing_configuration=_one_document_per_line(),
                compression_format="GZIP",
                file_extension=".json.gz",
                kms_key_arn=args.archive_kms_key_arn,
            ),
            tags=args.tags,
            opts=self._child,
        )
        subscription = self._role(f"{name}-archive-logs", "logs", args)
        put = grant(self, "put", subscription, [allow(["firehose:PutRecord", "firehose:PutRecordBatch"], [stream.arn])])
        aws.cloudwatch.LogSubscriptionFilter(
            f"{name}-archive-filter",
            log_group=self.group,
            destination_arn=stream.arn,
            role_arn=subscription.arn,
            filter_pattern="",
            opts=pulumi.ResourceOptions(parent=self, depends_on=[put]),
        )

    def _delivery_role(self, name: str, args: AwsLogsArgs, bucket: pulumi.Output[str]) -> aws.iam.Role:
        """Source: https://docs.aws.amazon.com/firehose/latest/dev/controlling-access.html#using-iam-s3"""
        role = self._role(f"{name}-archive-s3", "firehose", args)
        statements = [
            allow(["s3:AbortMultipartUpload", "s3:PutObject"], [pulumi.Output.concat(bucket, f"/{_ARCHIVE_PREFIX}*")]),
            allow(["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"], [bucket]),
        ]
        if args.archive_kms_key_arn is not None:
            statements.append(allow(["kms:Decrypt", "kms:GenerateDataKey"], [args.archive_kms_key_arn]))
        grant(self, "deliver", role, statements)
        return role

    def _role(self, name: str, service: str, args: AwsLogsArgs) -> aws.iam.Role:
        return aws.iam.Role(
            name,
            assume_role_policy=trust(self._account.principal(service), self._account.number),
            permissions_boundary=args.permission_boundary,
            tags=args.tags,
            opts=self._child,
        )


def _one_document_per_line() -> "aws.kinesis.FirehoseDeliveryStreamExtendedS3ConfigurationProcessingConfigurationArgs":
    """CloudWatch Logs delivers gzipped JSON documents, of some lines each, with nothing between them.

    Source: https://docs.aws.amazon.com/firehose/latest/dev/writing-with-cloudwatch-logs-decompression.html
    """
    kind = aws.kinesis.FirehoseDeliveryStreamExtendedS3ConfigurationProcessingConfigurationProcessorArgs
    parameter = aws.kinesis.FirehoseDeliveryStreamExtendedS3ConfigurationProcessingConfigurationProcessorParameterArgs
    gzip = parameter(parameter_name="CompressionFormat", parameter_value="GZIP")
    return aws.kinesis.FirehoseDeliveryStreamExtendedS3ConfigurationProcessingConfigurationArgs(
        enabled=True, processors=[kind(type="Decompression", parameters=[gzip]), kind(type="AppendDelimiterToRecord")]
    )
