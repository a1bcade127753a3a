"""Registry, log group and account bootstrap. Recording mocks prove what is requested, not that AWS accepts it."""

from collections.abc import Callable
from typing import Any

import pulumi_aws as aws
import pytest

from components.aws.bootstrap import AwsBootstrap, AwsBootstrapArgs
from components.aws.logs import AwsLogs, AwsLogsArgs
from components.aws.network import AwsNetwork, AwsNetworkArgs
from components.aws.registry import AwsRegistry, AwsRegistryArgs
from components.aws.store import AwsStore, AwsStoreArgs
from components.config import ConfigError
from tests.components.recording import ACCOUNT, Recorder, run
from tests.fields import about

GROUP = "arn:mock:LogGroup:l-group"


def role(name: str = "r") -> aws.iam.Role:
    return aws.iam.Role(name, assume_role_policy="{}")


def test_a_repository_for_each_name_scanned_immutable_and_kept_in_bounds():
    args = AwsRegistryArgs(
        namespace="vision-dev", repositories=["embed", "preprocess"], keep_images=7, expire_untagged_after_days=3
    )
    made = run(lambda: AwsRegistry("g", args))
    assert made.counts() == {"AwsRegistry": 1, "ecr.LifecyclePolicy": 2, "ecr.Repository": 2}
    repository = made.one("ecr.Repository", "g-preprocess")
    assert repository.inputs["name"] == "vision-dev/preprocess"
    assert repository.inputs["imageTagMutability"] == "IMMUTABLE"
    assert repository.inputs["imageScanningConfiguration"] == {"scanOnPush": True}
    assert repository.options["protect"] is True
    untagged, oldest = made.one("ecr.LifecyclePolicy", "g-preprocess-lifecycle").document("policy")["rules"]
    assert (untagged["rulePriority"], oldest["rulePriority"]) == (1, 2)
    assert untagged["selection"] == {
        "tagStatus": "untagged",
        "countType": "sinceImagePushed",
        "countUnit": "days",
        "countNumber": 3,
    }
    assert oldest["selection"] == {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 7}


def test_pulling():
    def program() -> None:
        registry = AwsRegistry("g", AwsRegistryArgs(namespace="v", repositories=["a"]))
        registry.grant_pull(role())

    made = run(program)
    token = {"Effect": "Allow", "Action": ["ecr:GetAuthorizationToken"], "Resource": ["*"]}
    pull = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resource = [f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/v/*"]
    assert made.document_of("g-pull-r") == [token, {"Effect": "Allow", "Action": pull, "Resource": resource}]


def test_an_imported_repository_is_named_and_the_stacks_own_have_one_pattern():
    def program() -> None:
        given = AwsRegistryArgs(namespace="v", repositories=["a", "b", "old"], imported={"old": "team/old"})
        AwsRegistry("g", given).grant_pull(role())

    _, pull = run(program).document_of("g-pull-r")
    assert pull["Resource"] == [f"arn:aws:ecr:us-west-2:{ACCOUNT}:repository/v/*", "arn:mock:Repository:g-old-team/old"]
    only = AwsRegistryArgs(namespace="v", repositories=["old"], imported={"old": "team/old"})
    _, pull = run(lambda: AwsRegistry("g", only).grant_pull(role())).document_of("g-pull-r")
    assert pull["Resource"] == ["arn:mock:Repository:g-old-team/old"], "nothing in the namespace is the stack's"


def test_an_empty_registry_grants_no_repository():
    made = run(lambda: AwsRegistry("g", AwsRegistryArgs(namespace="v", repositories=[])).grant_pull(role()))
    assert [statement["Action"] for statement in made.document_of("g-pull-r")] == [["ecr:GetAuthorizationToken"]]


def test_a_log_group_keeps_lines_for_as_long_as_it_is_told():
    made = run(lambda: AwsLogs("l", AwsLogsArgs(retention_days=30, metric_namespace="Tidemill/v")))
    assert made.counts() == {
        "AwsLogs": 1,
        "cloudwatch.LogGroup": 1,
        "cloudwatch.LogIndexPolicy": 1,
        "cloudwatch.LogMetricFilter": 5,
    }
    assert made.one("cloudwatch.LogGroup").inputs["retentionInDays"] == 30


def test_workers_events_are_counted_by_queue():
    """tests/unit/worker/test_events.py proves that workers say these events, with these fields."""
    made = run(lambda: AwsLogs("l", AwsLogsArgs(metric_namespace="Tidemill/v"))).of("cloudwatch.LogMetricFilter")
    counted = {each.inputs["metricTransformation"]["name"]: each.inputs for each in made}
    assert {name: (each["pattern"], each["metricTransformation"]["value"]) for name, each in counted.items()} == {
        "Items": ('{ $.event = "chunk" }', "$.items"),
        "FailedItems": ('{ $.event = "chunk" }', "$.failed"),
        "Reclaims": ('{ $.event = "reclaim" }', "1"),
        "FirstItemWait": ('{ $.event = "first_item" }', "$.waited_ms"),
        "WorkerErrors": ('{ $.event = "worker_error" }', "1"),
    }
    for each in counted.values():
        assert each["metricTransformation"]["dimensions"] == {"queue": "$.queue"}
        # With dimensions CloudWatch refuses one.
        assert "defaultValue" not in each["metricTransformation"]


def test_writing_and_reading_lines_of_this_group_alone():
    def program() -> None:
        logs = AwsLogs("l", AwsLogsArgs())
        logs.grant_write(role())
        logs.grant_read(role("human"))

    made = run(program)
    assert made.document_of("l-write-r") == [
        {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": [f"{GROUP}:*"]}
    ]
    assert made.document_of("l-read-human") == [
        {
            "Effect": "Allow",
            "Action": ["logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents", "logs:StartQuery"],
            "Resource": [GROUP, f"{GROUP}:*"],
        },
        {"Effect": "Allow", "Action": ["logs:GetQueryResults", "logs:StopQuery"], "Resource": ["*"]},
    ]


def test_a_key_for_logs_admits_the_logs_service_for_this_accounts_groups():
    made = run(lambda: AwsLogs("l", AwsLogsArgs(kms_key="create")))
    service = made.document_of("l-key")[1]
    assert service["Principal"] == {"Service": "logs.us-west-2.amazonaws.com"}
    assert "kms:GenerateDataKeyWithoutPlaintext" in service["Action"]
    groups = "arn:aws:logs:us-west-2:123456789012:log-group:*"
    assert service["Condition"] == {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}}
    assert made.one("cloudwatch.LogGroup").inputs["kmsKeyId"] == "arn:mock:Key:l-key"


def archived(**settings) -> Recorder:
    bucket = "arn:aws:s3:::store"
    return run(lambda: AwsLogs("l", AwsLogsArgs(archive_bucket_arn=bucket, **settings)))


def test_the_archive_copies_every_line_under_logs():
    made = archived()
    stream = made.one("kinesis.FirehoseDeliveryStream").inputs["extendedS3Configuration"]
    assert (stream["bucketArn"], stream["prefix"]) == ("arn:aws:s3:::store", "logs/")
    assert (stream["compressionFormat"], stream["fileExtension"]) == ("GZIP", ".json.gz")
    processors = [each["type"] for each in stream["processingConfiguration"]["processors"]]
    assert processors == ["Decompression", "AppendDelimiterToRecord"]
    subscription = made.one("cloudwatch.LogSubscriptionFilter").inputs
    assert subscription["filterPattern"] == ""
    assert subscription["destinationArn"] == "arn:mock:FirehoseDeliveryStream:l-archive"
    assert made.document_of("l-put-l-archive-logs") == [
        {
            "Effect": "Allow",
            "Action": ["firehose:PutRecord", "firehose:PutRecordBatch"],
            "Resource": ["arn:mock:FirehoseDeliveryStream:l-archive"],
        }
    ]
    assert made.document_of("l-deliver-l-archive-s3")[0]["Resource"] == ["arn:aws:s3:::store/logs/*"]


def test_the_archives_roles_serve_this_account_and_keep_its_boundary():
    made = archived(permission_boundary="arn:aws:iam::123456789012:policy/b")
    services = {}
    for assumed in made.of("iam.Role"):
        (statement,) = assumed.document("assumeRolePolicy")["Statement"]
        assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
        assert assumed.inputs["permissionsBoundary"] == "arn:aws:iam::123456789012:policy/b"
        services[assumed.name] = statement["Principal"]["Service"]
    assert services == {"l-archive-s3": "firehose.amazonaws.com", "l-archive-logs": "logs.amazonaws.com"}


def test_an_account_gets_its_roles_and_a_place_for_state():
    made = run(lambda: AwsBootstrap("t", AwsBootstrapArgs(tags={"owner": "ml-platform"})))
    services = {linked.name: linked.inputs["awsServiceName"] for linked in made.of("iam.ServiceLinkedRole")}
    assert services == {"t-batch": "batch.amazonaws.com", "t-spot": "spot.amazonaws.com"}
    assert made.one("s3.Bucket").options["protect"] is True
    assert made.one("s3.BucketVersioning").inputs["versioningConfiguration"] == {"status": "Enabled"}
    assert made.counts()["kms.Key"] == 1


def test_a_replica_is_closed_protected_and_of_the_other_region():
    made = run(lambda: AwsBootstrap("t", AwsBootstrapArgs(replica="us-east-1", tags={"owner": "ml-platform"})))
    alone = run(lambda: AwsBootstrap("t", AwsBootstrapArgs(tags={"owner": "ml-platform"})))
    assert not any("region" in each.inputs for each in alone.resources), "an earlier stack's preview shows no change"
    there = {each.kind for each in made.resources if each.inputs.get("region") == "us-east-1"}
    assert there == {each.kind for each in alone.resources if each.kind.startswith(("s3.", "kms."))}
    bucket = made.one("s3.Bucket", "t-replica-bucket")
    assert (bucket.options["protect"], bucket.inputs["tags"]) == (True, {"owner": "ml-platform"})
    assert made.one("kms.Key", "t-replica-key").options["protect"] is True
    replication = made.one("s3.BucketReplicationConfig").inputs
    assert "region" not in replication, "it is a part of the state's bucket"
    prefixes = [rule["filter"]["prefix"] for rule in replication["rules"]]
    assert prefixes == [".pulumi/meta.yaml", ".pulumi/stacks/", ".pulumi/history/"], "no locks"
    assert len({rule["priority"] for rule in replication["rules"]}) == len(prefixes)
    for rule in replication["rules"]:
        assert rule["deleteMarkerReplication"] == {"status": "Disabled"}
        assert rule["sourceSelectionCriteria"] == {"sseKmsEncryptedObjects": {"status": "Enabled"}}
        assert rule["destination"]["encryptionConfiguration"] == {"replicaKmsKeyId": "arn:mock:Key:t-replica-key"}


def test_a_replica_is_given_up_alone():
    args = AwsBootstrapArgs(replica="us-east-1", purge_replica=True)
    made = run(lambda: AwsBootstrap("t", args))
    protected = {each.name for each in made.resources if each.options["protect"]}
    assert protected == {"t-state-bucket", "t-state-key"}
    kept = run(lambda: AwsBootstrap("t", AwsBootstrapArgs(replica="us-east-1")))
    stop = kept.one("Protection")
    assert (stop.name, stop.options["protect"]) == ("t-replica-us-east-1 (purge_replica lifts this)", True)


def test_the_replications_role_reads_versions_and_adds_copies():
    made = run(lambda: AwsBootstrap("t", AwsBootstrapArgs(replica="us-east-1")))
    (trusted,) = made.document_of("t-replication", "assumeRolePolicy")
    assert trusted["Principal"] == {"Service": "s3.amazonaws.com"}
    assert trusted["Condition"] == {"StringEqualsIfExists": {"aws:SourceAccount": "123456789012"}}
    statements = made.document_of("t-copy-t-replication")
    rights = {action: each["Resource"] for each in statements for action in each["Action"]}
    (write,) = (each for each in statements if "s3:ReplicateObject" in each["Action"])
    assert write["Condition"] == {"StringEqualsIfExists": {"aws:ResourceAccount": "123456789012"}}
    source, copy = "arn:mock:Bucket:t-state-bucket", "arn:mock:Bucket:t-replica-bucket"
    assert rights == {
        "s3:GetReplicationConfiguration": [source],
        "s3:ListBucket": [source],
        "s3:GetObjectVersionAcl": [f"{source}/.pulumi/*"],
        "s3:GetObjectVersionForReplication": [f"{source}/.pulumi/*"],
        "s3:GetObjectVersionTagging": [f"{source}/.pulumi/*"],
        "s3:ReplicateObject": [f"{copy}/.pulumi/*"],
        "s3:ReplicateTags": [f"{copy}/.pulumi/*"],
        "kms:Decrypt": ["arn:mock:Key:t-state-key"],
        "kms:Encrypt": ["arn:mock:Key:t-replica-key"],
        "kms:GenerateDataKey": ["arn:mock:Key:t-replica-key"],
    }


def test_an_account_that_has_the_roles_already():
    made = run(lambda: AwsBootstrap("t", AwsBootstrapArgs(service_linked_roles=["batch.amazonaws.com"])))
    assert [linked.name for linked in made.of("iam.ServiceLinkedRole")] == ["t-batch"]


@pytest.mark.parametrize(
    ("make", "key", "value"),
    [
        (lambda: AwsNetwork("n", AwsNetworkArgs(egress="none")), "network.create.egress", '"none"'),
        (lambda: AwsStore("s", AwsStoreArgs(expire_jobs_after_days=29)), "store.expire_jobs_after_days", "29"),
        (lambda: AwsLogs("l", AwsLogsArgs(retention_days=2)), "logs.retention_days", "2"),
        (
            lambda: AwsRegistry("g", AwsRegistryArgs(namespace="v", repositories=["A"])),
            "registry.repositories[0]",
            '"A"',
        ),
    ],
    ids=["network", "store", "logs", "registry"],
)
def test_a_component_alone_refuses_what_a_stack_would(make: Callable[[], Any], key: str, value: str):
    with pytest.raises(ConfigError, check=about(f"tidemill:{key}", value)):
        run(make)
