"""Every type's life against localcloud's daemon. It cannot prove what AWS answers, only that calls fit its models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws.provider import invokes
from localcloud.aws.provider.clients import Clients
from localcloud.aws.provider.table import AWS
from localcloud.cloud import Cloud
from localcloud.provider import plan
from localcloud.provider.resources import HalfMadeError, ProviderResource

pytestmark = pytest.mark.xdist_group("localcloud-provider")
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


def policy(action: str, resource: str = "*") -> str:
    """A document that allows one action."""
    statement = {"Effect": "Allow", "Action": [action], "Resource": [resource]}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def pulled(service: str) -> str:
    """A repository's document that lets a service pull."""
    actions = ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    statement = {"Effect": "Allow", "Principal": {"Service": f"{service}.amazonaws.com"}, "Action": actions}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def called(role: str, word: str) -> dict[str, Any]:
    """A schedule's target."""
    function = "arn:aws:lambda:us-west-2:123456789012:function:f"
    return {"arn": function, "roleArn": role, "input": json.dumps({"word": word})}


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """Clients as the provider makes them, with the environment of a running localcloud."""
    started = Cloud(tmp_path_factory.mktemp("cloud"), batch_transition_seconds=0.05, relation_seconds=0.1)
    with pytest.MonkeyPatch.context() as patch, started as cloud:
        for key, value in cloud.settings.items():
            if key.startswith("AWS_"):
                patch.setenv(key, value)
        yield Clients("us-west-2")


class World:
    """Resources that the types under test need; the provider makes them and they last for the module."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self._made: dict[str, dict[str, Any]] = {}

    def make(self, token: str, **inputs: Any) -> dict[str, Any]:
        """Create a resource once per set of inputs. Returns its outputs and id."""
        key = json.dumps([token, inputs], sort_keys=True)
        if key not in self._made:
            made, outputs = create(self.clients, token, f"base{len(self._made)}", inputs)
            self._made[key] = {**outputs, "id": made}
        return self._made[key]

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)()

    def vpc(self) -> str:
        return self.make("aws:ec2/vpc:Vpc", cidrBlock="10.0.0.0/16")["id"]

    def subnet(self, block: int = 0) -> str:
        return self.make("aws:ec2/subnet:Subnet", vpcId=self.vpc(), cidrBlock=f"10.0.{block}.0/24")["id"]

    def subnet2(self) -> str:
        return self.subnet(7)

    def group(self) -> str:
        return self.make("aws:ec2/securityGroup:SecurityGroup", vpcId=self.vpc())["id"]

    def table(self, number: int = 1) -> str:
        return self.make("aws:ec2/routeTable:RouteTable", vpcId=self.vpc(), tags={"n": str(number)})["id"]

    def table2(self) -> str:
        return self.table(2)

    def gateway(self) -> str:
        return self.make("aws:ec2/internetGateway:InternetGateway", vpcId=self.vpc())["id"]

    def nat(self) -> str:
        address = self.make("aws:ec2/eip:Eip", domain="vpc")["id"]
        return self.make("aws:ec2/natGateway:NatGateway", allocationId=address, subnetId=self.subnet())["id"]

    def bucket(self) -> str:
        return self.make("aws:s3/bucket:Bucket")["id"]

    def bucket_arn(self) -> str:
        return f"arn:aws:s3:::{self.bucket()}"

    def role(self, number: int = 1) -> str:
        return self.make("aws:iam/role:Role", assumeRolePolicy=TRUST, description=str(number))["id"]

    def role2(self) -> str:
        return self.role(2)

    def role_arn(self) -> str:
        return self.make("aws:iam/role:Role", assumeRolePolicy=TRUST, description="1")["arn"]

    def policy_arn(self) -> str:
        return self.make("aws:iam/policy:Policy", policy=policy("s3:GetObject"))["arn"]

    def profile(self) -> str:
        return self.make("aws:iam/instanceProfile:InstanceProfile", role=self.role())["arn"]

    def key(self, number: int = 1) -> str:
        return self.make("aws:kms/key:Key", description=str(number))["keyId"]

    def key2(self) -> str:
        return self.key(2)

    def logs(self) -> str:
        return self.make("aws:cloudwatch/logGroup:LogGroup")["id"]

    def files(self) -> str:
        return self.make("aws:efs/fileSystem:FileSystem", encrypted=True)["id"]

    def topic(self) -> str:
        return self.make("aws:sns/topic:Topic")["arn"]

    def function(self) -> dict[str, Any]:
        """A function of an image that Lambda may pull."""
        trust = TRUST.replace("ec2", "lambda")
        repository = self.make("aws:ecr/repository:Repository")
        self.make("aws:ecr/repositoryPolicy:RepositoryPolicy", repository=repository["id"], policy=pulled("lambda"))
        return {
            "role": self.make("aws:iam/role:Role", assumeRolePolicy=trust)["arn"],
            "packageType": "Image",
            "imageUri": f"{repository['repositoryUrl']}@sha256:{'0' * 64}",
        }

    def group_of_schedules(self) -> str:
        return self.make("aws:scheduler/scheduleGroup:ScheduleGroup")["name"]

    def messages(self) -> str:
        return self.make("aws:sqs/queue:Queue")["url"]

    def stream(self) -> str:
        settings = {"bucketArn": self.bucket_arn(), "roleArn": self.role_arn()}
        token = "aws:kinesis/firehoseDeliveryStream:FirehoseDeliveryStream"
        return self.make(token, destination="extended_s3", extendedS3Configuration=settings)["arn"]

    def template(self) -> dict[str, Any]:
        made = self.make("aws:ec2/launchTemplate:LaunchTemplate", userData="YQ==")
        return {"launchTemplateId": made["id"], "version": "1"}

    def compute(self, cpus: int = 8, **more: Any) -> dict[str, Any]:
        return {
            "type": "SPOT",
            "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED",
            "minVcpus": 0,
            "maxVcpus": cpus,
            "instanceTypes": ["c6i.large", "m6i.large"],
            "instanceRole": self.profile(),
            "subnets": [self.subnet()],
            "securityGroupIds": [self.group()],
            "launchTemplate": self.template(),
            "ec2Configurations": [{"imageType": "ECS_AL2023"}],
        } | more

    def environment(self, cpus: int = 8) -> str:
        token = "aws:batch/computeEnvironment:ComputeEnvironment"
        return self.make(token, type="MANAGED", computeResources=self.compute(cpus))["arn"]

    def versioned(self) -> str:
        bucket = self.make("aws:s3/bucket:Bucket")["id"]
        enabled = {"status": "Enabled"}
        self.make("aws:s3/bucketVersioning:BucketVersioning", bucket=bucket, versioningConfiguration=enabled)
        return bucket

    def shares(self, seconds: int = 60) -> str:
        return self.make("aws:batch/schedulingPolicy:SchedulingPolicy", fairSharePolicy={"shareDecaySeconds": seconds})[
            "arn"
        ]


def create(clients: Clients, token: str, name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check and create. Returns the id and the outputs."""
    return ProviderResource(AWS.row(token), clients).create(complete(token, name, given), 30)


def complete(token: str, name: str, given: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """Inputs as the provider's Check answers them."""
    inputs = plan.check(AWS.row(token), name, old or {}, given, name.encode())
    if AWS.row(token).taggable:
        inputs["tagsAll"] = plan.merged_tags(inputs.get("tags"), {"team": "test"})
    return inputs


@pytest.fixture(scope="module")
def world(clients: Clients) -> World:
    return World(clients)


def container(image: str) -> str:
    """Container properties."""
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "128"}]
    return json.dumps({"image": image, "command": ["true"], "resourceRequirements": needs})


def destination(world: World, prefix: str) -> dict[str, Any]:
    gzip = {"parameterName": "CompressionFormat", "parameterValue": "GZIP"}
    processors = [{"type": "Decompression", "parameters": [gzip]}, {"type": "AppendDelimiterToRecord"}]
    return {
        "bucketArn": world.bucket_arn(),
        "roleArn": world.role_arn(),
        "prefix": prefix,
        "bufferingInterval": 300,
        "compressionFormat": "GZIP",
        "fileExtension": ".json.gz",
        "processingConfiguration": {"enabled": True, "processors": processors},
    }


def expiry(days: int) -> list[dict[str, Any]]:
    return [{"id": "jobs", "status": "Enabled", "filter": {"prefix": "jobs/"}, "expiration": {"days": days}}]


def copied(world: World, prefix: str) -> list[dict[str, Any]]:
    return [{
        "id": "states", "status": "Enabled", "priority": 1, "filter": {"prefix": prefix},
        "deleteMarkerReplication": {"status": "Disabled"},
        "sourceSelectionCriteria": {"sseKmsEncryptedObjects": {"status": "Enabled"}},
        "destination": {"bucket": world.bucket_arn(), "encryptionConfiguration": {"replicaKmsKeyId": "arn:aws:kms:x"}},
    }]  # fmt: skip


def metric(value: str) -> dict[str, str]:
    return {"name": "FailedItems", "namespace": "Test", "value": value}


def queries(name: str) -> list[dict[str, Any]]:
    counted = {"namespace": "Test", "metricName": name, "dimensions": {"queue": "cpu"}, "period": 60, "stat": "Sum"}
    return [{"id": "all", "expression": "one", "returnData": True}, {"id": "one", "metric": counted}]


def notice(percent: float) -> dict[str, Any]:
    """A notice of a budget."""
    return {
        "comparisonOperator": "GREATER_THAN",
        "notificationType": "ACTUAL",
        "threshold": percent,
        "thresholdType": "PERCENTAGE",
        "subscriberEmailAddresses": ["a@example.com"],
    }


# tests/engine creates, refreshes and deletes all the others; only their tags are ever updated.
# token: (inputs, the changes that an update makes), as functions of the world; no changes: every change replaces it
LIVES: dict[str, Any] = {
    "aws:ec2/route:Route": lambda w: (
        {"routeTableId": w["table"], "destinationCidrBlock": "0.0.0.0/0", "gatewayId": w["gateway"]},
        {"gatewayId": None, "natGatewayId": w["nat"]},
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": lambda w: (
        {"routeTableId": w["table"], "subnetId": w["subnet2"]},
        {"routeTableId": w["table2"]},
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": lambda w: (
        {"securityGroupId": w["group"], "ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": "0.0.0.0/0"},
        {"fromPort": 80},
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": lambda w: (
        {"securityGroupId": w["group"], "ipProtocol": "tcp", "fromPort": 443, "toPort": 443, "cidrIpv4": "10.0.0.0/8"},
        {"description": "from within"},
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": lambda w: (
        {"vpcId": w["vpc"], "serviceName": "com.amazonaws.us-west-2.s3", "routeTableIds": [w["table"]]},
        {"routeTableIds": [w["table2"]]},
    ),
    "aws:s3/bucket:Bucket": lambda w: ({"tags": {"a": "1"}}, {"forceDestroy": True, "tags": {"b": "2"}}),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": lambda w: (
        {"bucket": w["bucket"], "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}]},
        {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": w["key"]}}]},
    ),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": lambda w: (
        {"bucket": w["bucket"], "rules": expiry(90)},
        {"rules": expiry(120)},
    ),
    "aws:s3/bucketPolicy:BucketPolicy": lambda w: (
        {"bucket": w["bucket"], "policy": policy("s3:GetObject", w["bucket_arn"] + "/*")},
        {"policy": policy("s3:ListBucket", w["bucket_arn"])},
    ),
    "aws:s3/bucketVersioning:BucketVersioning": lambda w: (
        {
            "bucket": w.make("aws:s3/bucket:Bucket", forceDestroy=True)["id"],
            "versioningConfiguration": {"status": "Enabled"},
        },
        {"versioningConfiguration": {"status": "Suspended"}},
    ),
    "aws:s3/bucketReplicationConfig:BucketReplicationConfig": lambda w: (
        {"bucket": w.versioned(), "role": w.role_arn(), "rules": copied(w, ".pulumi/stacks/")},
        {"rules": copied(w, ".pulumi/history/")},
    ),
    "aws:s3/bucketObjectv2:BucketObjectv2": lambda w: (
        {"bucket": w["bucket"], "key": "pipeline.json", "content": "{}", "tags": {"a": "b"}},
        {"content": '{"a": 1}', "contentType": "application/json"},
    ),
    "aws:kms/key:Key": lambda w: (
        {"description": "a", "enableKeyRotation": True, "deletionWindowInDays": 7},
        {"description": "b", "enableKeyRotation": False},
    ),
    "aws:secretsmanager/secret:Secret": lambda w: (
        {"description": "a", "policy": policy("secretsmanager:GetSecretValue"), "recoveryWindowInDays": 0},
        {"description": "b", "policy": policy("secretsmanager:PutSecretValue"), "tags": {"a": "c"}},
    ),
    "aws:kms/alias:Alias": lambda w: ({"targetKeyId": w["key"]}, {"targetKeyId": w["key2"]}),
    "aws:iam/role:Role": lambda w: (
        {"assumeRolePolicy": TRUST, "permissionsBoundary": w["policy_arn"], "tags": {"a": "b"}},
        {"assumeRolePolicy": TRUST.replace("ec2", "batch"), "permissionsBoundary": None, "maxSessionDuration": 7200},
    ),
    "aws:iam/rolePolicy:RolePolicy": lambda w: (
        {"role": w["role"], "policy": policy("s3:GetObject")},
        {"policy": policy("s3:PutObject")},
    ),
    "aws:iam/policy:Policy": lambda w: (
        {"policy": policy("s3:GetObject")},
        {"policy": policy("s3:PutObject"), "tags": {"a": "b"}},
    ),
    "aws:iam/instanceProfile:InstanceProfile": lambda w: ({"role": w["role"]}, {"role": w["role2"]}),
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": lambda w: (
        {"url": "https://ci.example.com", "clientIdLists": ["sts.amazonaws.com"], "thumbprintLists": ["a" * 40]},
        {"thumbprintLists": ["b" * 40], "tags": {"a": "b"}},
    ),
    "aws:batch/computeEnvironment:ComputeEnvironment": lambda w: (
        {
            "type": "MANAGED",
            "computeResources": w.compute(),
            "updatePolicy": {"jobExecutionTimeoutMinutes": 360},
            "tags": {"a": "b"},
        },
        {"computeResources": w.compute(32, instanceTypes=["c7i.large"]), "tags": {"a": "c"}},
    ),
    "aws:batch/jobQueue:JobQueue": lambda w: (
        {
            "state": "ENABLED",
            "priority": 1,
            "schedulingPolicyArn": w.shares(),
            "computeEnvironmentOrders": [{"order": 1, "computeEnvironment": w.environment()}],
        },
        {"priority": 2, "computeEnvironmentOrders": [{"order": 1, "computeEnvironment": w.environment(16)}]},
    ),
    "aws:batch/schedulingPolicy:SchedulingPolicy": lambda w: (
        {"fairSharePolicy": {"shareDecaySeconds": 60}},
        {"fairSharePolicy": {"shareDecaySeconds": 120}, "tags": {"a": "b"}},
    ),
    "aws:cloudwatch/logIndexPolicy:LogIndexPolicy": lambda w: (
        {"logGroupName": w["logs"], "policyDocument": '{"Fields":["job"]}'},
        {"policyDocument": '{"Fields":["item","job"]}'},
    ),
    "aws:cloudwatch/queryDefinition:QueryDefinition": lambda w: (
        {"name": "v/all", "queryString": "fields @message | limit 5", "logGroupNames": [w["logs"]]},
        {"name": "v/some", "queryString": "fields @message | limit 2"},
    ),
    "aws:cloudwatch/logMetricFilter:LogMetricFilter": lambda w: (
        {"logGroupName": w["logs"], "pattern": "x", "metricTransformation": metric("1")},
        {"metricTransformation": metric("2")},
    ),
    "aws:cloudwatch/metricAlarm:MetricAlarm": lambda w: (
        {
            "comparisonOperator": "GreaterThanThreshold",
            "evaluationPeriods": 1,
            "threshold": 20,
            "metricQueries": queries("items"),
            "tags": {"a": "b"},
        },
        {"threshold": 30, "metricQueries": queries("failed")},
    ),
    "aws:cloudwatch/dashboard:Dashboard": lambda w: (
        {"dashboardName": "vision-dev", "dashboardBody": '{"widgets": []}'},
        {"dashboardBody": '{"widgets": [{"type": "text", "properties": {"markdown": "a"}}]}'},
    ),
    "aws:cloudwatch/eventRule:EventRule": lambda w: (
        {"eventPattern": '{"source": ["aws.batch"]}', "tags": {"a": "b"}},
        {"eventPattern": '{"source": ["aws.ec2"]}', "description": "b"},
    ),
    "aws:cloudwatch/eventTarget:EventTarget": lambda w: (
        {
            "rule": w.make("aws:cloudwatch/eventRule:EventRule", eventPattern='{"source": ["aws.batch"]}')["name"],
            "targetId": "topic",
            "arn": w["topic"],
            "inputTransformer": {"inputPaths": {"job": "$.detail.jobName"}, "inputTemplate": '"<job>"'},
        },
        {"inputTransformer": {"inputPaths": {"job": "$.detail.jobId"}, "inputTemplate": '"<job>"'}},
    ),
    "aws:efs/fileSystem:FileSystem": lambda w: (
        {"encrypted": True, "throughputMode": "elastic", "tags": {"a": "b"}},
        {"throughputMode": "bursting", "lifecyclePolicies": [{"transitionToIa": "AFTER_30_DAYS"}], "tags": {"a": "c"}},
    ),
    "aws:efs/mountTarget:MountTarget": lambda w: (
        {"fileSystemId": w["files"], "subnetId": w["subnet"], "securityGroups": [w["group"]]},
        {"securityGroups": [w.make("aws:ec2/securityGroup:SecurityGroup", vpcId=w["vpc"], description="b")["id"]]},
    ),
    "aws:efs/accessPoint:AccessPoint": lambda w: (
        {
            "fileSystemId": w["files"],
            "posixUser": {"uid": 1000, "gid": 1000},
            "rootDirectory": {"path": "/a", "creationInfo": {"ownerUid": 1, "ownerGid": 1, "permissions": "0770"}},
        },
        {"tags": {"a": "b"}},
    ),
    "aws:efs/fileSystemPolicy:FileSystemPolicy": lambda w: (
        {"fileSystemId": w["files"], "policy": policy("elasticfilesystem:ClientMount")},
        {"policy": policy("elasticfilesystem:ClientWrite")},
    ),
    "aws:efs/backupPolicy:BackupPolicy": lambda w: (
        {"fileSystemId": w["files"], "backupPolicy": {"status": "ENABLED"}},
        {},
    ),
    "aws:sns/topic:Topic": lambda w: ({"tags": {"a": "b"}}, {"tags": {"a": "c"}}),
    "aws:sns/topicPolicy:TopicPolicy": lambda w: (
        {"arn": w["topic"], "policy": policy("sns:Publish", w["topic"])},
        {"policy": policy("sns:Subscribe", w["topic"])},
    ),
    "aws:sns/topicSubscription:TopicSubscription": lambda w: (
        {"topic": w["topic"], "protocol": "email", "endpoint": "a@example.com"},
        {},
    ),
    "aws:ecr/repositoryPolicy:RepositoryPolicy": lambda w: (
        {"repository": w.make("aws:ecr/repository:Repository")["id"], "policy": pulled("lambda")},
        {"policy": pulled("batch")},
    ),
    "aws:lambda/function:Function": lambda w: (
        {
            **w.function(),
            "timeout": 900,
            "memorySize": 1024,
            "imageConfig": {"entryPoints": ["/e"], "commands": ["sender"]},
            "environment": {"variables": {"A": "1"}},
            "loggingConfig": {"logFormat": "Text", "logGroup": "g"},
            "tags": {"a": "b"},
        },
        {
            "imageUri": w.function()["imageUri"].replace("0" * 64, "1" * 64),
            "memorySize": 2048,
            "imageConfig": {"entryPoints": ["/e"], "commands": ["other"]},
            "environment": {"variables": {"A": "2"}},
            "loggingConfig": {"logFormat": "Text", "logGroup": "h"},
            "tags": {"a": "c"},
        },
    ),
    "aws:scheduler/scheduleGroup:ScheduleGroup": lambda w: ({"tags": {"a": "b"}}, {"tags": {"a": "c"}}),
    "aws:scheduler/schedule:Schedule": lambda w: (
        {
            "groupName": w.group_of_schedules(),
            "flexibleTimeWindow": {"mode": "OFF"},
            "scheduleExpression": "cron(0 2 * * ? *)",
            "target": called(w.role_arn(), "a"),
        },
        {"scheduleExpressionTimezone": "Europe/Berlin", "state": "DISABLED", "target": called(w.role_arn(), "b")},
    ),
    "aws:sqs/queue:Queue": lambda w: (
        {"messageRetentionSeconds": 1209600, "sqsManagedSseEnabled": True, "tags": {"a": "b"}},
        {"visibilityTimeoutSeconds": 60, "tags": {"a": "c"}},
    ),
    "aws:sqs/queuePolicy:QueuePolicy": lambda w: (
        {"queueUrl": w.messages(), "policy": policy("sqs:SendMessage")},
        {"policy": policy("sqs:ReceiveMessage")},
    ),
    "aws:cloudwatch/logSubscriptionFilter:LogSubscriptionFilter": lambda w: (
        {"logGroup": w["logs"], "filterPattern": "", "destinationArn": w["stream"], "roleArn": w["role_arn"]},
        {"filterPattern": "x"},
    ),
    "aws:kinesis/firehoseDeliveryStream:FirehoseDeliveryStream": lambda w: (
        {"destination": "extended_s3", "extendedS3Configuration": destination(w, "logs/")},
        {"extendedS3Configuration": destination(w, "archive/"), "tags": {"a": "b"}},
    ),
}


@pytest.mark.parametrize("token", sorted(LIVES))
def test_life(token: str, world: World) -> None:
    given, changes = LIVES[token](world)
    resource = ProviderResource(AWS.row(token), world.clients)
    inputs = complete(token, "life", given)
    resource_id, outputs = resource.create(inputs, 30)
    assert resource_id
    assert outputs.keys() >= {key for key in AWS.row(token).out if key == "arn"}

    seen = resource.read(resource_id, outputs, inputs, {"team": "test"})
    assert seen is not None
    assert seen[1] == inputs, "a refresh finds nothing"
    again = complete(token, "life", given, inputs)
    assert plan.diff(AWS.row(token), inputs, again) == {}, "a second up finds nothing"

    if changes:
        merged = {key: value for key, value in (given | changes).items() if value is not None}
        news = complete(token, "life", merged, inputs)
        differences = plan.diff(AWS.row(token), inputs, news)
        assert differences
        assert not any(replaces for _, replaces in differences.values())
        outputs = resource.update(resource_id, inputs, outputs, news, 30)
        seen = resource.read(resource_id, outputs, news, {"team": "test"})
        assert seen is not None
        assert seen[1] == news, "what was updated is there"
        if AWS.row(token).taggable:
            assert seen[0]["tagsAll"] == {"team": "test", **(merged.get("tags") or {})}

    resource.delete(resource_id, outputs, 30)
    if not token.endswith("BucketVersioning"):  # AWS cannot turn a versioned bucket back
        assert resource.read(resource_id, outputs, {}, {}) is None
    resource.delete(resource_id, outputs, 30)


def test_a_job_definition_keeps_older_revisions_only_when_told_so(world: World) -> None:
    token = "aws:batch/jobDefinition:JobDefinition"
    for keep, active in ((False, 2), (True, 1)):
        given = {"type": "container", "containerProperties": container("a"), "deregisterOnNewRevision": keep}
        resource = ProviderResource(AWS.row(token), world.clients)
        inputs = complete(token, f"revision{keep}", given)
        resource_id, outputs = resource.create(inputs, 30)
        news = complete(token, f"revision{keep}", given | {"containerProperties": container("b")}, inputs)
        outputs = resource.update(resource_id, inputs, outputs, news, 30)
        assert outputs["revision"] == 2
        assert outputs["arn"] == f"{outputs['arnPrefix']}:2"
        found = world.clients.get("batch").describe_job_definitions(jobDefinitionName=inputs["name"], status="ACTIVE")
        assert len(found["jobDefinitions"]) == active
        resource.delete(resource_id, outputs, 30)


def test_empty_lists_that_batch_adds_to_a_container_are_no_change(world: World) -> None:
    token = "aws:batch/jobDefinition:JobDefinition"
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
    document = {"image": "i", "resourceRequirements": needs, "linuxParameters": {"initProcessEnabled": True}}
    inputs = complete(token, "lists", {"type": "container", "containerProperties": json.dumps(document)})
    resource = ProviderResource(AWS.row(token), world.clients)
    resource_id, outputs = resource.create(inputs, 30)
    seen = resource.read(resource_id, outputs, inputs, {})
    assert seen is not None
    assert seen[1]["containerProperties"] == inputs["containerProperties"]
    resource.delete(resource_id, outputs, 30)


def test_a_budgets_notices_are_put_in_the_place_of_the_old(world: World) -> None:
    token = "aws:budgets/budget:Budget"
    given = {"budgetType": "COST", "timeUnit": "MONTHLY", "limitAmount": "20", "limitUnit": "USD"}
    resource = ProviderResource(AWS.row(token), world.clients)
    inputs = complete(token, "notices", given | {"notifications": [notice(50), notice(80)]})
    resource_id, outputs = resource.create(inputs, 30)
    news = complete(token, "notices", given | {"notifications": [notice(50), notice(90)]}, inputs)
    outputs = resource.update(resource_id, inputs, outputs, news, 30)
    asked = {"AccountId": world.clients.account, "BudgetName": inputs["name"]}
    found = world.clients.get("budgets").describe_notifications_for_budget(**asked)["Notifications"]
    assert [each["Threshold"] for each in found] == [50.0, 90.0]
    resource.delete(resource_id, outputs, 30)


def test_a_template_update_is_a_new_default_version(world: World) -> None:
    token = "aws:ec2/launchTemplate:LaunchTemplate"
    given = {"userData": "YQ==", "updateDefaultVersion": True}
    resource = ProviderResource(AWS.row(token), world.clients)
    inputs = complete(token, "versions", given)
    resource_id, outputs = resource.create(inputs, 30)
    assert (outputs["latestVersion"], outputs["defaultVersion"]) == (1, 1)
    news = complete(token, "versions", given | {"userData": "Yg=="}, inputs)
    outputs = resource.update(resource_id, inputs, outputs, news, 30)
    assert (outputs["latestVersion"], outputs["defaultVersion"]) == (2, 2)


def test_what_was_only_half_made_is_completed_by_the_next_update(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "aws:s3/bucket:Bucket"
    inputs = complete(token, "half", {"tags": {"a": "b"}})
    resource = ProviderResource(AWS.row(token), world.clients)
    with monkeypatch.context() as patch:
        patch.setattr(resource, "_run", lambda *_: 1 / 0)
        with pytest.raises(HalfMadeError) as half:
            resource.create(inputs, 30)
    kept = half.value
    assert (kept.resource_id, kept.inputs) == (inputs["bucket"], inputs)
    seen = resource.read(kept.resource_id, kept.outputs, inputs, {})
    assert seen is not None
    assert seen[1]["tagsAll"] == {}
    outputs = resource.update(kept.resource_id, inputs, kept.outputs, inputs, 30)
    assert resource.read(kept.resource_id, outputs, inputs, {"team": "test"}) == (outputs, inputs)
    group = ProviderResource(AWS.row("aws:ec2/securityGroup:SecurityGroup"), world.clients)
    given = complete(group.row.token, "whole", {"vpcId": world.vpc()})
    group_id, outputs = group.create(given, 30)
    assert group.update(group_id, given, outputs, given, 30) == outputs


def test_a_nat_gateway_takes_its_interface_with_it(world: World) -> None:
    token = "aws:ec2/natGateway:NatGateway"
    address = world.make("aws:ec2/eip:Eip", domain="vpc", tags={"for": "nat"})["id"]
    given = {"allocationId": address, "subnetId": world.subnet()}
    before = world.clients.get("ec2").describe_network_interfaces()["NetworkInterfaces"]
    resource_id, outputs = create(world.clients, token, "nat", given)
    ProviderResource(AWS.row(token), world.clients).delete(resource_id, outputs, 30)
    assert world.clients.get("ec2").describe_network_interfaces()["NetworkInterfaces"] == before


def test_a_policy_is_updated_more_often_than_it_keeps_versions(world: World) -> None:
    token = "aws:iam/policy:Policy"
    inputs = complete(token, "often", {"policy": policy("s3:GetObject")})
    resource = ProviderResource(AWS.row(token), world.clients)
    resource_id, outputs = resource.create(inputs, 30)
    for number in range(6):
        news = complete(token, "often", {"policy": policy("s3:GetObject", f"arn:aws:s3:::b{number}")}, inputs)
        outputs = resource.update(resource_id, inputs, outputs, news, 30)
        inputs = news
    seen = resource.read(resource_id, outputs, inputs, {"team": "test"})
    assert seen is not None
    assert seen[1] == inputs


def test_a_bucket_with_objects_goes_only_by_force(world: World) -> None:
    token = "aws:s3/bucket:Bucket"
    resource_id, outputs = create(world.clients, token, "full", {})
    world.clients.get("s3").put_object(Bucket=resource_id, Key="a", Body=b"a")
    resource = ProviderResource(AWS.row(token), world.clients)
    with pytest.raises(ClientError, match="BucketNotEmpty"):
        resource.delete(resource_id, outputs, 30)
    resource.delete(resource_id, outputs | {"forceDestroy": True}, 30)
    assert resource.read(resource_id, outputs, {}, {}) is None


def test_a_compute_environment_in_use_is_deleted_once_and_the_error_told(world: World) -> None:
    token = "aws:batch/computeEnvironment:ComputeEnvironment"
    resource_id, outputs = create(
        world.clients, token, "used", {"type": "MANAGED", "computeResources": world.compute()}
    )
    orders = [{"order": 1, "computeEnvironment": outputs["arn"]}]
    queue = {"state": "ENABLED", "priority": 1, "computeEnvironmentOrders": orders}
    queue_id, queue_outputs = create(world.clients, "aws:batch/jobQueue:JobQueue", "user", queue)
    resource = ProviderResource(AWS.row(token), world.clients)
    with pytest.raises(ClientError, match="found existing JobQueue relationship"):
        resource.delete(resource_id, outputs, 30)
    seen = resource.read(resource_id, outputs, {}, {})
    assert seen is not None
    assert seen[0]["state"] == "DISABLED"
    ProviderResource(AWS.row("aws:batch/jobQueue:JobQueue"), world.clients).delete(queue_id, queue_outputs, 30)
    resource.delete(resource_id, outputs, 30)


def test_drift_is_found_and_undone(world: World) -> None:
    token = "aws:ecr/repository:Repository"
    inputs = complete(token, "drift", {"imageTagMutability": "IMMUTABLE", "tags": {"a": "b"}})
    resource = ProviderResource(AWS.row(token), world.clients)
    resource_id, outputs = resource.create(inputs, 30)
    client = world.clients.get("ecr")
    client.put_image_tag_mutability(repositoryName=resource_id, imageTagMutability="MUTABLE")
    client.untag_resource(resourceArn=outputs["arn"], tagKeys=["a"])
    seen = resource.read(resource_id, outputs, inputs, {"team": "test"})
    assert seen is not None
    assert seen[1] == inputs | {"imageTagMutability": "MUTABLE", "tags": {}, "tagsAll": {"team": "test"}}
    assert set(plan.diff(AWS.row(token), seen[1], inputs)) == {"imageTagMutability", "tags.a", "tagsAll.a"}


@pytest.mark.parametrize(
    ("token", "given"),
    [
        ("aws:s3/bucket:Bucket", lambda w: {"tags": {"a": "b"}}),
        ("aws:ecr/repository:Repository", lambda w: {"imageTagMutability": "IMMUTABLE"}),
        (
            "aws:batch/jobQueue:JobQueue",
            lambda w: {
                "state": "ENABLED",
                "priority": 3,
                "computeEnvironmentOrders": [{"order": 1, "computeEnvironment": w.environment()}],
            },
        ),
    ],
)
def test_import(token: str, given: Any, world: World) -> None:
    inputs = complete(token, "imported", given(world))
    resource = ProviderResource(AWS.row(token), world.clients)
    resource_id, outputs = resource.create(inputs, 30)
    seen = resource.read(resource_id, {}, {}, {"team": "test"})
    assert seen is not None
    assert plan.diff(AWS.row(token), seen[1], inputs) == {}
    assert seen[0]["arn"] == outputs["arn"]


def test_a_machine_image_is_looked_up_with_what_its_disks_are(world: World) -> None:
    def ask(image: str) -> dict[str, Any]:
        filters = [{"name": "image-id", "values": [image]}]
        return invokes.invoke("aws:ec2/getAmi:getAmi", {"filters": filters}, world.clients)

    ec2 = world.clients.get("ec2")
    ours = {"Architecture": "arm64", "RootDeviceName": "/dev/xvda"}
    made = [ec2.register_image(Name=name, **ours)["ImageId"] for name in ("ours", "theirs")]
    found = ask(made[0])
    assert (found["imageId"], found["architecture"], found["rootDeviceName"]) == (made[0], "arm64", "/dev/xvda")
    assert (found["state"], found["platform"], found["name"]) == ("available", "", "ours")
    (disk,) = found["blockDeviceMappings"]
    assert (disk["deviceName"], disk["ebs"]["volume_size"]) == ("/dev/xvda", "15")
    assert disk["ebs"]["delete_on_termination"] == "false"
    with pytest.raises(RuntimeError, match="Your query returned no results"):
        ask("ami-0123456789abcdef0")
    both = {"filters": [{"name": "image-id", "values": made}]}
    with pytest.raises(RuntimeError, match="more than one result"):
        invokes.invoke("aws:ec2/getAmi:getAmi", both, world.clients)
    newest = invokes.invoke("aws:ec2/getAmi:getAmi", both | {"mostRecent": True}, world.clients)
    assert newest["imageId"] in made


def test_functions(world: World) -> None:
    def ask(name: str, **args: Any) -> dict[str, Any]:
        module, function = name.split("/")
        return invokes.invoke(f"aws:{module}/{function}:{function}", args, world.clients)

    assert ask("index/getCallerIdentity")["accountId"] == "123456789012"
    assert ask("index/getPartition")["partition"] == "aws"
    assert ask("index/getRegion")["region"] == "us-west-2"
    zones = ask(
        "index/getAvailabilityZones",
        state="available",
        filters=[{"name": "zone-type", "values": ["availability-zone"]}],
    )
    assert zones["names"][:2] == ["us-west-2a", "us-west-2b"]
    subnet = ask("ec2/getSubnet", id=world.subnet())
    assert (subnet["vpcId"], subnet["cidrBlock"]) == (world.vpc(), "10.0.0.0/24")
    assert world.subnet() in ask("ec2/getSubnets", filters=[{"name": "vpc-id", "values": [world.vpc()]}])["ids"]
    ec2 = world.clients.get("ec2")
    tagged = ec2.create_security_group(GroupName="t", Description="t", VpcId=world.vpc())["GroupId"]
    ec2.create_tags(Resources=[tagged], Tags=[{"Key": "team", "Value": "vision"}])
    assert ask("ec2/getSecurityGroups", tags={"team": "vision"})["ids"] == [tagged]
    assert ask("ec2/getSecurityGroups", tags={"team": "speech"})["ids"] == []
    assert ask("ec2/getVpc", id=world.vpc())["cidrBlock"] == "10.0.0.0/16"
    with pytest.raises(RuntimeError, match="expected one that matches, found 0"):
        ask("ec2/getVpc", tags={"no": "such"})
