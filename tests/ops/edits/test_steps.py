"""Edits of a team's and a platform team's day, each with the finding that a careful engineer expects.

Edits that endanger data, access, money or guardrails must not be silent. Most previews are built from the steps that
matter; the rest are recorded (tests/ops/previews). tests/engine/test_review.py runs one through the engine.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ops.review import guardrails
from ops.review.build import build
from ops.review.document import parse
from ops.review.models import Finding
from tests.ops.make_previews import TODAY, TablePrices, load
from tests.ops.review_steps import statement, step, told, urn

ENVIRONMENT = "aws:batch/computeEnvironment:ComputeEnvironment"
TEMPLATE = "gcp:compute/regionInstanceTemplate:RegionInstanceTemplate"
GROUP = "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager"
SCALER = "gcp:compute/regionAutoscaler:RegionAutoscaler"
ALARM, TOPIC = "aws:cloudwatch/metricAlarm:MetricAlarm", "aws:sns/topic:Topic"
ALERT = "gcp:monitoring/alertPolicy:AlertPolicy"


def asking(query: str) -> dict[str, Any]:
    """An alert policy with a condition in PromQL."""
    return {"conditions": [{"conditionPrometheusQueryLanguage": {"query": query}}]}


BUCKET = "aws:s3/bucket:Bucket"
LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
KEY = "a-key"
RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
ACCOUNT = "123456789012"


def recorded(name: str) -> list[Finding]:
    """The findings of a recorded preview."""
    return list(build([parse(load(name), name)], TODAY, TablePrices()).stacks[0].findings)


def changed(kind: str, old: dict, new: dict, name: str = "it", **more: Any) -> dict:
    """An update of the properties that differ."""
    return step("update", kind, name, old=old, new=new, diff=dict.fromkeys({**old, **new}, "update"), **more)


def gone(kind: str, name: str = "it", old: dict | None = None, *, protected: bool = False, **more: Any) -> dict:
    return step("delete", kind, name, old=old or {}, protect=(protected, False), **more)


def replaced(kind: str, key: str, name: str = "it", *, protected: bool = False) -> dict:
    return step(
        "replace",
        kind,
        name,
        old={key: "a"},
        new={key: "b"},
        diff={key: "update-replace"},
        protect=(protected, protected),
    )


def expiring(days: int | None) -> dict:
    rules = [{"id": "expire-jobs", "status": "Enabled", "filter": {"prefix": "jobs/"}, "expiration": {"days": days}}]
    return {"rules": rules if days else []}


def encrypted(key: str | None) -> dict:
    default = {"sseAlgorithm": "aws:kms" if key else "AES256", **({"kmsMasterKeyId": key} if key else {})}
    return {"rules": [{"applyServerSideEncryptionByDefault": default}]}


def environment(name: str, market: str, cpus: int, kind: str = "c6i.2xlarge") -> dict:
    return {"name": name, "computeResources": {"type": market, "maxVcpus": cpus, "instanceTypes": [kind]}}


def keeping(cpus: int) -> dict:
    return {"computeResources": {"type": "SPOT", "maxVcpus": 64, "minVcpus": cpus}}


def rung(name: str) -> str:
    return urn(ENVIRONMENT, name)


def queue(*names: str) -> dict:
    arns = [f"arn:aws:batch:us-west-2:{ACCOUNT}:compute-environment/{name}" for name in names]
    return {"computeEnvironmentOrders": [{"order": n, "computeEnvironment": arn} for n, arn in enumerate(arns, 1)]}


def on_demand_first() -> list[Finding]:
    """A queue of Spot GPUs gets a large On-Demand rung before it; its ARN is not known yet."""
    new = queue("it", "spot")
    new["computeEnvironmentOrders"][0]["computeEnvironment"] = UNKNOWN
    needs = {"computeEnvironmentOrders": sorted([rung("spot"), rung("on-demand")])}
    return told(
        step("same", ENVIRONMENT, "spot", old=environment("spot", "SPOT", 64), new=environment("spot", "SPOT", 64)),
        step("create", ENVIRONMENT, "on-demand", new=environment("on-demand", "EC2", 2000)),
        changed("aws:batch/jobQueue:JobQueue", queue("spot"), new, "queue", needs=needs),
    )


def trust(*principals: str) -> dict:
    statements = [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": each}} for each in principals]
    return {
        "arn": f"arn:aws:iam::{ACCOUNT}:role/submitter",
        "assumeRolePolicy": json.dumps({"Version": "2012-10-17", "Statement": statements}),
    }


def trusted(principal: str) -> list[Finding]:
    before = f"arn:aws:iam::{ACCOUNT}:role/ann"
    return told(changed("aws:iam/role:Role", trust(before), trust(before, principal), "submitter"))


def machines(subnetwork: str) -> dict:
    return {"networkInterfaces": [{"network": "projects/hub/global/networks/shared", "subnetwork": subnetwork}]}


def guarded(path: str, old: str | None, new: str | None) -> list[Finding]:
    """The findings about a file of the project."""
    rule = "policy/rules/aws_s3_bucket_closed.py"
    return list(guardrails.findings([path], lambda asked, before: (old if before else new) if asked == path
                                    else "CRITICAL" if asked == rule else None))  # fmt: skip


def removed(resources: int | None) -> list[Finding]:
    document = {"version": 1, "stack": "tiny-dev", "cloud": "aws", "exit_code": 0, "removed": {"resources": resources}}
    return list(build([parse(json.dumps(document), "tiny-dev")], TODAY).stacks[0].findings)


def said(rule: str, level: str, severity: str, *steps: dict, on: str = "it", kind: str = BUCKET) -> list[Finding]:
    """The findings where the policy pack reports a violation."""
    told_of = {
        "rule": rule,
        "level": level,
        "severity": severity,
        "urn": urn(kind, on),
        "message": "The rule.\nBroken.",
    }
    return told(*steps, policies=[told_of], exit_code=int(level == "mandatory"))


def tagged(count: int, *tags: str) -> dict:
    tags_all = dict.fromkeys(tags, "x")
    return {"tags": {}, "tagsAll": tags_all, "bucket": f"b{count}"}


@dataclass(frozen=True)
class Edit:
    """An edit, the review's findings, and (severity, kind, words of the title) of one that must be among them."""

    name: str
    findings: Callable[[], list[Finding]]
    severity: str
    kind: str
    says: str = ""


def policy_data(*members: str, role: str = "roles/pubsub.publisher") -> dict:
    return {"policyData": json.dumps({"bindings": [{"role": role, "members": list(members)}]})}


def inline(action: str) -> dict:
    document = statement(Action=action, Resource="*")
    return {"inlinePolicies": [{"name": "work", "policy": document}]}


def invoking(who: str, **more: str) -> dict:
    return {"action": "lambda:InvokeFunction", "function": "f", "principal": who, **more}


PERMISSION = "aws:lambda/permission:Permission"
TOPIC_POLICY = "gcp:pubsub/topicIAMPolicy:TopicIAMPolicy"
ROLE = "aws:iam/role:Role"
POLICY, ATTACHMENT = "aws:iam/policy:Policy", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
ADMIN = "arn:aws:iam::aws:policy/AdministratorAccess"
PROVIDER = "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider"
# Edits that teams make with resources of their own, beside the components.
BY_HAND = (
    Edit("a whole policy gains everybody",
        lambda: told(changed(TOPIC_POLICY, policy_data("user:a@b.c"), policy_data("user:a@b.c", "allUsers"))),
        "critical", "access-widened", "adds 1 binding"),
    Edit(
        "a whole policy makes an owner",
        lambda: told(
            step("create", "gcp:projects/iAMPolicy:IAMPolicy", new=policy_data("user:a@b.c", role="roles/owner"))
        ),
        "critical",
        "access-widened",
        "adds 1 binding",
    ),
    Edit("a whole policy is not known yet",
        lambda: told(changed(TOPIC_POLICY, policy_data("user:a@b.c"), {"policyData": UNKNOWN})), "medium",
        "access-widened", "known only after up"),
    Edit("an access list opens a bucket",
        lambda: told(step("create", "gcp:storage/bucketACL:BucketACL", new={"roleEntities": ["READER:allUsers"]})),
        "critical", "access-widened", "adds 1 binding"),
    Edit("an access list by its name opens a bucket",
        lambda: told(changed("gcp:storage/bucketACL:BucketACL", {}, {"predefinedAcl": "publicRead"})), "critical",
        "access-widened"),
    Edit(
        "an entry of an access list opens a bucket",
        lambda: told(
            step(
                "create",
                "gcp:storage/bucketAccessControl:BucketAccessControl",
                new={"entity": "allUsers", "role": "READER"},
            )
        ),
        "critical",
        "access-widened",
    ),
    Edit(
        "a dataset opens to every login",
        lambda: told(
            step(
                "create",
                "gcp:bigquery/datasetAccess:DatasetAccess",
                new={"specialGroup": "allAuthenticatedUsers", "role": "READER"},
            )
        ),
        "critical",
        "access-widened",
    ),
    Edit("everybody may invoke a function", lambda: told(step("create", PERMISSION, new=invoking("*"))), "critical",
        "access-widened", "permission adds 1 permission (everybody)"),
    Edit(
        "another account may invoke a function",
        lambda: told(
            step("same", ROLE, "r", old=trust("*"), new=trust("*")),
            changed(PERMISSION, invoking(ACCOUNT), invoking("999999999999")),
        ),
        "high",
        "access-widened",
        "another account",
    ),
    Edit("a service may invoke a function of this stack",
        lambda: told(step("create", PERMISSION, new=invoking("events.amazonaws.com", sourceArn="arn"))), "low",
        "access-widened"),
    Edit("a role's own policy grows", lambda: told(changed(ROLE, inline("s3:GetObject"), inline("*"))), "critical",
        "access-widened", "inline policy work adds 1 permission"),
    Edit("a role's own policy is not known yet",
        lambda: told(changed(ROLE, {}, {"inlinePolicies": [{"name": "work", "policy": UNKNOWN}]})), "medium",
        "access-widened", "inline policy work is known only after up"),
    Edit(
        "the exclusive list of a role's policies gains the administrator",
        lambda: told(
            changed(
                "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
                {"policyArns": []},
                {"policyArns": [ADMIN]},
            )
        ),
        "critical",
        "access-widened",
        "managed policies",
    ),
    Edit("the account no longer blocks public buckets",
        lambda: told(gone("aws:s3/accountPublicAccessBlock:AccountPublicAccessBlock")), "critical", "network-opened",
        "the account's public access block"),
    Edit("a provider of identities loses its condition",
        lambda: told(changed(PROVIDER, {"attributeCondition": 'assertion.repository=="a/b"'}, {})), "high",
        "access-widened", "admits other tokens"),
)  # fmt: skip
DOCUMENTS = [statement(Action=["s3:GetObject", "s3:PutObject"], Resource="*"),
             statement(Resource=["*"], Action=["s3:PutObject", "s3:GetObject"])]  # fmt: skip
SILENT = {
    "a policy in another order": changed(
        "aws:iam/rolePolicy:RolePolicy", {"policy": DOCUMENTS[0]}, {"policy": DOCUMENTS[1]}
    ),
    "a role's own policy in another order": changed(
        ROLE,
        {"inlinePolicies": [{"name": "a", "policy": DOCUMENTS[0]}, {"name": "b", "policy": DOCUMENTS[1]}]},
        {"inlinePolicies": [{"name": "b", "policy": DOCUMENTS[0]}, {"name": "a", "policy": DOCUMENTS[1]}]},
    ),
    "a whole policy in another order": changed(
        TOPIC_POLICY, policy_data("user:a@b.c", "user:d@b.c"), policy_data("user:d@b.c", "user:a@b.c")
    ),
    "an access list that loses everybody": changed(
        "gcp:storage/bucketACL:BucketACL", {"roleEntities": ["READER:allUsers"]}, {"roleEntities": []}
    ),
    "a role's own policy that shrinks": changed(ROLE, inline("*"), inline("s3:GetObject")),
}
EDITS = (
    Edit(
        "flow logs on GCP take a smaller sample",
        lambda: told(
            changed(
                "gcp:compute/subnetwork:Subnetwork",
                {"logConfig": {"flowSampling": 0.5}},
                {"logConfig": {"flowSampling": 0.01}},
            )
        ),
        "high",
        "protection-lifted",
        "logs fewer of the machines' connections: 1%, was 50%",
    ),
    Edit("a queue is removed", lambda: recorded("queue-removed"), "critical", "failed", "up would not run"),
    Edit("a queue is renamed: its jobs end", lambda: recorded("queue-removed"), "high", "jobs-interrupted",
        "job queue"),
    Edit("scratch grows, other families", lambda: recorded("other-machines"), "high", "jobs-interrupted",
        "infrastructure"),
    Edit("max_cpus 256 to 64",
        lambda: told(changed(ENVIRONMENT, environment("it", "SPOT", 256), environment("it", "SPOT", 64))), "low",
        "capacity", "may start 64 vCPUs, was 256"),
    Edit("logs 90 to 14 days",
        lambda: told(changed("aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 90}, {"retentionInDays": 14})),
        "high", "state-expires", "shorter retention"),
    Edit("logs for ever to 14 days",
        lambda: told(changed("aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 0}, {"retentionInDays": 14})),
        "high", "state-expires", "retentionInDays unlimited to 14"),
    Edit("expire_jobs 30 days to 1", lambda: told(changed(LIFECYCLE, expiring(30), expiring(1))), "high",
        "state-expires", "deletes objects below jobs/ sooner: kept 1 day, was 30 days"),
    Edit("expire_jobs set for the first time", lambda: told(changed(LIFECYCLE, expiring(None), expiring(30))), "high",
        "state-expires", "kept 30 days, was for ever"),
    Edit("rules of a bucket that is there already", lambda: told(step("create", LIFECYCLE, new=expiring(30))), "high",
        "state-expires", "kept 30 days, was for ever"),
    Edit("expire_jobs no longer set", lambda: told(changed(LIFECYCLE, expiring(30), expiring(None))), "low",
        "state-expires", "later: kept for ever"),
    Edit("the budget is removed (prod: also a mandatory policy)", lambda: told(gone("aws:budgets/budget:Budget")),
        "high", "unwatched", "budget is left"),
    Edit("the budget on GCP is removed", lambda: told(gone("gcp:billing/budget:Budget")), "high", "unwatched",
        "budget"),
    Edit("all alarms are removed", lambda: told(gone(ALARM, "stalled"), gone(ALARM, "blocked"), gone(TOPIC, "topic")),
        "high", "unwatched", "nothing of the stack's alarms is left: 3 resources deleted"),
    Edit("all alert policies on GCP are removed", lambda: told(gone(ALERT, "silent")), "high", "unwatched", "left"),
    Edit("one alarm of two is removed", lambda: told(gone(ALARM, "a"), step("same", ALARM, "b", old={}, new={})),
        "medium", "unwatched", "some"),
    Edit("a queue goes with its alarms",
        lambda: told(gone(ALARM, "a"), gone(ENVIRONMENT, "e"), step("same", ALARM, "b", old={}, new={})), "low",
        "unwatched", "some"),
    Edit("an alarm is muted", lambda: told(changed(ALARM, {"alarmActions": ["t"]}, {"alarmActions": []})), "high",
        "unwatched", "tells nobody"),
    Edit("an alert policy is switched off", lambda: told(changed(ALERT, {"enabled": True}, {"enabled": False})), "high",
        "unwatched", "it is off"),
    Edit("an alarm's threshold is raised",
        lambda: told(changed(ALARM, {"threshold": 1, "alarmActions": ["t"]}, {"threshold": 2, "alarmActions": ["t"]})),
        "medium", "unwatched", "threshold is raised: 1 becomes 2"),
    Edit("an alarm waits for more looks",
        lambda: told(changed(ALARM, {"datapointsToAlarm": 6}, {"datapointsToAlarm": 12})), "medium", "unwatched",
        "more looks must agree"),
    Edit("an alarm no longer says that it is over",
        lambda: told(changed(ALARM, {"okActions": ["t"]}, {"okActions": []})), "low", "unwatched", "when it is over"),
    Edit("an alarm's expression changes",
        lambda: told(changed(ALARM, {"metricQueries": [{"expression": "a / b"}]},
            {"metricQueries": [{"expression": "a / c"}]})), "low", "unwatched", "condition changes"),
    Edit("an alert policy's threshold is raised",
        lambda: told(changed(ALERT, asking("100 * a[15m] > 20"), asking("100 * a[15m] > 40"))), "medium", "unwatched",
        "tells later"),
    Edit("the dashboard is removed", lambda: told(gone("aws:cloudwatch/dashboard:Dashboard")), "medium", "unwatched",
        "dashboard"),
    Edit("EFS backup off",
        lambda: told(gone("aws:efs/backupPolicy:BackupPolicy", old={"backupPolicy": {"status": "ENABLED"}})), "high",
        "state-expires", "no longer backs up"),
    Edit(
        "EFS backup off while another file system goes",
        lambda: told(
            gone("aws:efs/backupPolicy:BackupPolicy", old={"backupPolicy": {"status": "ENABLED"}}, needs=OF_FILES),
            gone("aws:efs/fileSystem:FileSystem", "another"),
        ),
        "high",
        "state-expires",
        "no longer backs up",
    ),
    Edit("a bucket loses the setting with its key", lambda: told(gone(ENCRYPTION, old=encrypted(KEY))), "high",
        "protection-lifted", "no longer encrypted with your key"),
    Edit("a bucket goes from a key to S3's own", lambda: told(changed(ENCRYPTION, encrypted(KEY), encrypted(None))),
        "high", "protection-lifted", "no longer encrypted with your key"),
    Edit("a bucket on GCP loses its key",
        lambda: told(changed("gcp:storage/bucket:Bucket", {"encryption": {"defaultKmsKeyName": KEY}}, {})), "high",
        "protection-lifted", "no longer encrypted with your key"),
    Edit(
        "EFS backup disabled by an override",
        lambda: told(
            changed(
                "aws:efs/backupPolicy:BackupPolicy",
                {"backupPolicy": {"status": "ENABLED"}},
                {"backupPolicy": {"status": "DISABLED"}},
            )
        ),
        "high",
        "state-expires",
        "no longer backs up",
    ),
    Edit("aws:defaultTags removed",
        lambda: told(*(changed(BUCKET, tagged(n, "cost-center"), tagged(n), f"b{n}") for n in range(64))), "medium",
        "tags", "64 resources lose the tag cost-center"),
    Edit("the stack's own tag removed", lambda: told(changed(BUCKET, tagged(1, "tidemill:environment"), tagged(1))),
        "high", "tags", "tidemill:environment"),
    Edit("labels on GCP removed",
        lambda: told(changed("gcp:storage/bucket:Bucket", {"effectiveLabels": {"cost": "1"}}, {"effectiveLabels": {}})),
        "medium", "tags", "1 resource loses the label cost"),
    Edit("a file system is removed", lambda: told(gone("aws:efs/fileSystem:FileSystem", protected=True)), "critical",
        "state-lost", "every file"),
    Edit("another CIDR", lambda: told(replaced("aws:ec2/vpc:Vpc", "cidrBlock")), "critical", "jobs-interrupted",
        "up fails half-way"),
    Edit("egress nat to public", lambda: recorded("egress-opened"), "high", "network-opened", "public addresses"),
    Edit("another region", lambda: told(replaced(BUCKET, "region", protected=True)), "critical", "state-lost",
        "replaces"),
    Edit("another environment", lambda: told(replaced("aws:ecr/repository:Repository", "name", protected=True)),
        "critical", "state-lost", "image"),
    Edit("a submitter is the account's root", lambda: trusted(f"arn:aws:iam::{ACCOUNT}:root"), "high", "access-widened",
        "trust policy"),
    Edit("a submitter of another account", lambda: trusted("arn:aws:iam::999999999999:role/x"), "high",
        "access-widened", "another account"),
    Edit(
        "data.write of another bucket",
        lambda: told(
            changed(
                "aws:iam/rolePolicy:RolePolicy",
                {"policy": statement(Action="s3:PutObject", Resource="arn:aws:s3:::a/*")},
                {"policy": statement(Action="s3:PutObject", Resource=["arn:aws:s3:::a/*", "arn:aws:s3:::finance/*"])},
            )
        ),
        "high",
        "access-widened",
        "adds 1 permission",
    ),
    Edit("IMDSv1 by an override",
        lambda: said("aws-ec2-launch-template-imdsv2", "mandatory", "high", changed(BUCKET, {"a": 1}, {"a": 2})),
        "high", "policy", "imdsv2"),
    Edit("privileged by an override", lambda: said("aws-batch-job-definition-privileged", "mandatory", "critical"),
        "critical", "policy", "privileged"),
    Edit("SSH from everywhere", lambda: recorded("way-in"), "critical", "network-opened", "whole internet"),
    Edit("a bucket opened, and a waiver for it", lambda: recorded("waived"), "medium", "waiver", "waived"),
    Edit("the public access block of a bucket goes",
        lambda: told(gone("aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock")), "critical", "network-opened",
        "public access block"),
    Edit("allow: [purge]", lambda: recorded("purge"), "critical", "protection-lifted", "no longer protected"),
    Edit("force_destroy in a component's code", lambda: told(changed(BUCKET, {}, {"forceDestroy": True})), "critical",
        "protection-lifted", "forceDestroy"),
    Edit("a rule disabled in an environment",
        lambda: guarded("policy/environments/dev.json", "{}", '{"aws-s3-bucket-closed": "disabled"}'), "critical",
        "guardrail", "less strict"),
    Edit(
        "the cap on money raised",
        lambda: guarded(
            "policy/environments/dev.json",
            '{"a-money-cap": {"maxUsdPerHour": 200}}',
            '{"a-money-cap": {"maxUsdPerHour": 1000000}}',
        ),
        "high",
        "guardrail",
        "less strict",
    ),
    Edit("the deploying workflow", lambda: guarded(".github/workflows/deploy.yml", "a", "b"), "high", "guardrail"),
    Edit("CI's permissions", lambda: guarded("components/aws/ci/policies.py", "a", "b"), "high", "guardrail"),
    Edit("a stack file is deleted or renamed", lambda: removed(51), "critical", "stack-removed",
        "its 51 resources stay"),
    Edit("the same, seen without a login", lambda: removed(None), "critical", "stack-removed", "its resources stay"),
    Edit(
        "more On-Demand machines whose price is not known",
        lambda: told(
            changed(ENVIRONMENT, environment("it", "EC2", 64, "m7i.large"), environment("it", "EC2", 2000, "m7i.large"))
        ),
        "high",
        "capacity",
        "may start 2000 vCPUs",
    ),
    Edit("minVcpus 0 to 64", lambda: told(changed(ENVIRONMENT, keeping(0), keeping(64))), "high", "capacity",
        "64 vCPUs stay without work, was 0"),
    Edit(
        "min_machines on GCP set for the first time",
        lambda: told(
            changed(SCALER, {"autoscalingPolicy": {"mode": "OFF"}}, {"autoscalingPolicy": {"minReplicas": 2}})
        ),
        "medium",
        "capacity",
        "2 machines stay without work, was 0",
    ),
    Edit("On-Demand first, 2000 vCPUs", on_demand_first, "high", "capacity", "On-Demand machines first"),
    Edit("a KMS key on GCP is dropped", lambda: told(gone("gcp:kms/cryptoKey:CryptoKey", protected=True)), "critical",
        "state-lost", "encrypted"),
    Edit("an On-Demand rung on GCP is dropped", lambda: told(gone(GROUP, protected=True)), "critical", "failed",
        "protected"),
    Edit(
        "an autoscaler on GCP may scale in",
        lambda: told(
            changed(SCALER, {"autoscalingPolicy": {"mode": "ONLY_SCALE_OUT"}}, {"autoscalingPolicy": {"mode": "ON"}})
        ),
        "high",
        "jobs-interrupted",
        "scale in",
    ),
    Edit(
        "another subnetwork of a shared VPC",
        lambda: told(
            step(
                "replace",
                TEMPLATE,
                old=machines("a"),
                new=machines("b"),
                diff={"networkInterfaces[0].subnetwork": "update-replace"},
            )
        ),
        "high",
        "network-opened",
        "another network",
    ),
    Edit(
        "allUsers on a bucket",
        lambda: told(
            step(
                "create",
                "gcp:storage/bucketIAMMember:BucketIAMMember",
                new={"role": "roles/storage.objectViewer", "member": "allUsers", "bucket": "b"},
            )
        ),
        "critical",
        "access-widened",
        "binding",
    ),
    Edit("an advisory of this change",
        lambda: said("aws-batch-job-queue-spot-first", "advisory", "medium", changed(BUCKET, {"a": 1}, {"a": 2})),
        "medium", "policy", "spot-first"),
    Edit(
        "a first deployment with a file system",
        lambda: told(
            step("create", "aws:ec2/securityGroup:SecurityGroup", "g", new={}),
            step(
                "create",
                RULE,
                new={"referencedSecurityGroupId": UNKNOWN, "fromPort": 2049, "toPort": 2049},
                needs={"referencedSecurityGroupId": [urn("aws:ec2/securityGroup:SecurityGroup", "g")]},
            ),
        ),
        "low",
        "network-opened",
        "this stack",
    ),
)  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_has_the_finding_that_a_careful_engineer_expects(edit):
    found = edit.findings()
    wanted = [(each.severity, each.kind) for each in found if edit.says in each.title]
    assert (edit.severity, edit.kind) in wanted, [(each.severity, each.kind, each.title) for each in found]


OF_FILES = {"fileSystemId": [urn("aws:efs/fileSystem:FileSystem", "f")]}
QUIET = {
    "nothing": lambda: recorded("no-change"),
    "a lifecycle rule moves": lambda: told(
        changed(LIFECYCLE, {"rules": [*expiring(30)["rules"], {"id": "x", "status": "Disabled"}]}, expiring(30))
    ),
    "tags that are known only after up": lambda: told(
        changed(BUCKET, tagged(1, "tidemill:team", "cost-center"), {**tagged(1), "tagsAll": UNKNOWN})
    ),
    "rules of a new bucket": lambda: told(
        step("create", BUCKET, "b", new={}),
        step("create", LIFECYCLE, new=expiring(30), needs={"bucket": [urn(BUCKET, "b")]}),
    ),
    "a tag is added": lambda: told(changed(BUCKET, tagged(1), tagged(1, "cost-center"))),
    "the provider's own record": lambda: told(changed(TEMPLATE, machines("a"), {**machines("a"), "__meta": "x"})),
    "a backup goes with its file system": lambda: [
        each
        for each in told(
            gone("aws:efs/backupPolicy:BackupPolicy", "b", {"backupPolicy": {"status": "ENABLED"}}, needs=OF_FILES),
            gone("aws:efs/fileSystem:FileSystem", "f"),
        )
        if "back" in each.title
    ],
    "logs 14 days to for ever": lambda: told(
        changed("aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 14}, {"retentionInDays": 0})
    ),
    "an alarm tells sooner": lambda: told(
        changed(ALARM, {"threshold": 2, "alarmActions": ["t"]}, {"threshold": 1, "alarmActions": ["t"]})
    ),
    "an alarm tells somebody more": lambda: told(
        changed(ALARM, {"alarmActions": ["t"]}, {"alarmActions": ["t", "u"]}),
        changed(ALERT, {"notificationChannels": ["t"]}, {"notificationChannels": ["t", "u"]}, "policy"),
    ),
    "an image has another digest in the same place": lambda: told(
        changed(
            "aws:batch/jobDefinition:JobDefinition",
            {"containerProperties": '{"image": "registry.example.com/a/b@sha256:' + 64 * "a" + '"}'},
            {"containerProperties": '{"image": "registry.example.com/a/b@sha256:' + 64 * "b" + '"}'},
        )
    ),
    "an alarm tells when it is over, too": lambda: told(
        changed(ALARM, {"alarmDescription": "a"}, {"alarmDescription": "b", "okActions": ["t"]})
    ),
    "an alert policy tells sooner": lambda: told(changed(ALERT, asking("a[15m] > 20"), asking("a[5m] > 10"))),
    "the form of a network's name": lambda: told(
        changed(TEMPLATE, machines("https://www.googleapis.com/compute/v1/projects/p/x"), machines("projects/p/x"))
    ),
}


@pytest.mark.parametrize("name", QUIET)
def test_what_endangers_nothing_is_silent(name):
    assert QUIET[name]() == []


def test_the_lowest_order_comes_first_whatever_its_digits():
    new = queue("spot", "on-demand")
    for each, order in zip(new["computeEnvironmentOrders"], (2, 10), strict=True):
        each["order"] = order
    found = told(
        step("same", ENVIRONMENT, "spot", old=environment("spot", "SPOT", 64), new=environment("spot", "SPOT", 64)),
        step("create", ENVIRONMENT, "on-demand", new=environment("on-demand", "EC2", 64)),
        changed(
            "aws:batch/jobQueue:JobQueue",
            queue("spot"),
            new,
            "queue",
            needs={"computeEnvironmentOrders": [rung("spot"), rung("on-demand")]},
        ),
    )
    assert [each.title for each in found] == ["new: up to 64 vCPUs"]


def test_a_large_fleet_says_what_it_may_cost():
    (found,) = [each for each in on_demand_first() if "On-Demand" in each.title]
    assert found.details == ("At most $250.00 per hour with all its machines.",)


def test_rights_that_move_from_a_policy_into_the_role_are_not_new():
    """As with a `permission_boundary`: the submitter role then holds its permissions itself."""
    role, policy, other = urn(ROLE, "submitter"), urn(POLICY, "submit"), urn(POLICY, "other")
    document = statement(Action=["s3:GetObject", "s3:PutObject"], Resource="*")
    before = [
        step("same", ROLE, "submitter", old={}, new={}),
        gone(POLICY, "submit", {"policy": document}),
        gone(POLICY, "other", {"policy": statement(Action="s3:*", Resource="*")}),
        gone(ATTACHMENT, "a", {}, needs={"role": [role], "policyArn": [policy]}),
        gone(ATTACHMENT, "b", {}, needs={"role": [urn(ROLE, "another")], "policyArn": [other]}),
    ]

    def inside(document: str) -> dict:
        return step(
            "create",
            "aws:iam/rolePolicy:RolePolicy",
            new={"role": "submitter", "policy": document},
            needs={"role": [role]},
        )

    assert told(*before, inside(document), kind="access-widened") == []
    wider = statement(Action=["s3:GetObject", "s3:DeleteObject"], Resource="*")
    [found] = told(*before, inside(wider), kind="access-widened")
    assert (found.severity, found.details) == ("high", ("Allow s3:DeleteObject on *",))


@pytest.mark.parametrize("edit", SILENT.values(), ids=SILENT)
def test_an_edit_that_widens_nothing_is_no_finding(edit):
    assert told(edit) == []
