"""The rights that the stacks of two teams and of CI grant: documents and bindings of the components, under mocks.

Only the names of the resources, which the clouds would choose, are written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pulumi

from components.aws.ci.boundary import boundary_statements
from components.aws.ci.ci import AwsCi, AwsCiArgs
from components.aws.ci.home import Home
from components.gcp.ci import GcpCi, GcpCiArgs
from localcloud.gcp.clock import Clock
from localcloud.gcp.iam import Policy
from localcloud.gcp.resources import Resources
from tests.components.recording import ACCOUNT, PROJECT, REGION, Recorder, run, run_with
from tests.components.stacks import run_program, run_stack, settings

__all__ = ["ACCOUNT", "PROJECT", "REGION", "Home", "boundary_statements", "documents", "google", "of_account"]

SUFFIX = "1a2b3c4"
"""The suffix that auto-naming adds to a name here."""
STATE = "arn:aws:s3:::tidemill-state-bucket-1a2b3c4"
REPLICA = "arn:aws:s3:::tidemill-replica-bucket-1a2b3c4"
CHANNEL = f"arn:aws:sns:{REGION}:{ACCOUNT}:ml-oncall"
STATE_KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/state"
BUCKETS = ["raw-images", "features"]
SUBMITTERS = f"arn:aws:iam::{ACCOUNT}:root"
PEOPLE = "group:{team}@example.com"
_SECRET = "arn:aws:secretsmanager:{region}:{account}:secret:{team}/token-AbCdEf"
_WORKER = f"registry://tidemill-worker@sha256:{64 * '0'}"

Document = dict[str, Any]


def of_account(service: str, resource: str, region: str = REGION) -> str:
    """An ARN of the account."""
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{resource}"


_ARNS: dict[str, Callable[[str, Mapping[str, Any]], str]] = {
    "aws:s3/bucket:Bucket": lambda name, _: f"arn:aws:s3:::{name}",
    "aws:batch/jobQueue:JobQueue": lambda name, _: of_account("batch", f"job-queue/{name}"),
    "aws:cloudwatch/logGroup:LogGroup": lambda name, _: of_account("logs", f"log-group:{name}"),
    "aws:ecr/repository:Repository": lambda _, inputs: of_account("ecr", f"repository/{inputs['name']}"),
    "aws:secretsmanager/secret:Secret": lambda name, _: of_account("secretsmanager", f"secret:{name}"),
    "aws:kms/key:Key": lambda name, _: of_account("kms", f"key/{name}"),
    "aws:efs/accessPoint:AccessPoint": lambda name, _: of_account("elasticfilesystem", f"access-point/{name}"),
    "aws:efs/fileSystem:FileSystem": lambda name, _: of_account("elasticfilesystem", f"file-system/{name}"),
    "aws:lambda/function:Function": lambda name, _: of_account("lambda", f"function:{name}"),
    "aws:sqs/queue:Queue": lambda name, _: of_account("sqs", name),
    "aws:iam/role:Role": lambda name, _: of_account("iam", f"role/{name}", ""),
    "aws:iam/policy:Policy": lambda name, _: of_account("iam", f"policy/{name}", ""),
}


class Arns(Recorder):
    """Answers ARNs as AWS does."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        found, outputs = super().new_resource(args)
        name = f"{args.name}-{SUFFIX}"
        if args.typ in _ARNS:
            outputs["arn"] = _ARNS[args.typ](name, args.inputs)
        outputs["arnPrefix"] = of_account("batch", f"job-definition/{name}")
        return found, outputs


_SENDERS = {"vision-dev-sender-function": "sender", "vision-dev-sender-schedules": "schedules"}


@cache
def documents() -> Mapping[str, list[Document]]:
    """The policies of each identity on AWS: of the stack vision-dev, of CI, and the boundary of `dev`."""
    values = settings("vision-dev")
    cpu = values["tidemill:queues"]["cpu"]
    secret = _SECRET.format(region=REGION, account=ACCOUNT, team="vision")
    values |= {
        "tidemill:access": {"submitters": [SUBMITTERS], "advise": True},
        "tidemill:worker_image": _WORKER,
        "tidemill:monitoring": {"job_channels": {"oncall": CHANNEL}},
        "tidemill:file_systems": {"shared": {}},
        "tidemill:disks": {"kms_key": "create"},
        "tidemill:schedules": {"nightly": {"template": "tiles", "cron": "0 2 * * *", "queues": ["cpu"]}},
        "tidemill:arrivals": {"files": {"template": "tiles", "prefix": "s3://raw-images/in/", "queues": ["cpu"]}},
        "tidemill:mirrors": {"docker.io": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/docker-hub"},
        "tidemill:queues": {
            "cpu": {
                **cpu,
                "per_job": {"markets": ["spot"]},
                "secrets": {"HF_TOKEN": secret},
                "mounts": {"shared": {"file_system": "shared", "path": "/mnt/shared"}},
            },
            "arm": {"images": {"default": f"docker.io/python@sha256:{64 * '0'}"}, "machines": {"families": ["c7g"]}},
        },
    }
    made = run_program(values, recorder=Arns())
    found: dict[str, list[Document]] = {"submitter": []}
    found["file system"] = [made.one("efs.FileSystemPolicy").document("policy")]
    found["key of disks"] = [made.one("kms.Key", "vision-dev-disks-key").document("policy")]
    for policy in made.of("iam.Policy"):
        found["submitter"].append(policy.document("policy"))
    for policy in made.of("iam.RolePolicy"):
        who = policy.inputs["role"].removeprefix("vision-dev-identity-").removesuffix(f"-{SUFFIX}")
        found.setdefault(_SENDERS.get(str(who)) or who, []).append(policy.document("policy"))
    args = AwsCiArgs("example/infra", STATE, STATE_KEY, ["dev", "prod"], replica_arn=REPLICA, buckets=BUCKETS)
    ci = run_with(Arns(), lambda: AwsCi("tidemill-ci", args))
    policies = {of_account("iam", f"policy/{each.name}-{SUFFIX}", ""): each for each in ci.of("iam.Policy")}
    for attached in ci.of("iam.RolePolicyAttachment"):
        who = attached.inputs["role"].removeprefix("tidemill-ci-").removesuffix(f"-{SUFFIX}")
        found.setdefault(who, []).append(policies[attached.inputs["policyArn"]].document("policy"))
    found["boundary-dev"] = [ci.one("iam.Policy", "tidemill-ci-boundary-dev").document("policy")]
    return found


ADA = f"arn:aws:iam::{ACCOUNT}:user/ada"


@cache
def personal() -> Mapping[str, list[Document]]:
    """The policies on AWS of ada-dev, a stack with personal secrets: of the submitter role and its trust, of the jobs'
    role, and of the secret itself."""
    access = {"submitters": [ADA], "personal_secrets": True}
    values = settings("vision-dev") | {"tidemill:team": "ada", "tidemill:access": access}
    made = run_program(values, recorder=Arns())
    assert not made.of("iam.Policy")
    found: dict[str, list[Document]] = {"secret": [made.one("secretsmanager.Secret").document("policy")]}
    found["trust"] = [made.one("iam.Role", "ada-dev-identity-submitter").document("assumeRolePolicy")]
    for policy in made.of("iam.RolePolicy"):
        who = policy.inputs["role"].removeprefix("ada-dev-identity-").removesuffix(f"-{SUFFIX}")
        found.setdefault(who, []).append(policy.document("policy"))
    return found


PATH, NUMBER = "example/platform/infra", "42"
"""Of the project on GitLab."""


@cache
def gitlab_trusts() -> Mapping[str, Document]:
    """The trust of CI's reader and writers on AWS in the project on GitLab, which is bound by its number."""
    values = {"provider": "gitlab", "repository": f"{PATH}@{NUMBER}", "environments": ["dev", "prod"]}
    made = run_with(Arns(), lambda: AwsCi("tidemill-ci", AwsCiArgs(state_arn=STATE, key_arn=STATE_KEY, **values)))
    return {each.name.removeprefix("tidemill-ci-"): each.document("assumeRolePolicy") for each in made.of("iam.Role")}


@cache
def gitlab_pool() -> Recorder:
    """The identity pool, accounts and bindings of the same on GCP."""
    args = GcpCiArgs(f"{PATH}@{NUMBER}", STATE_BUCKET, GOOGLE_KEY, ["dev", "prod"], provider="gitlab")
    return run(lambda: GcpCi("tidemill-ci", args))


_BOUND_TO: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "projects.IAMMember": lambda at: f"cloudresourcemanager/projects/{PROJECT}",
    "storage.BucketIAMMember": lambda at: f"storage/projects/_/buckets/{at['bucket']}",
    "pubsub.TopicIAMMember": lambda at: f"pubsub/projects/{PROJECT}/topics/{at['topic']}",
    "pubsub.SubscriptionIAMMember": lambda at: f"pubsub/projects/{PROJECT}/subscriptions/{at['subscription']}",
    "artifactregistry.RepositoryIamMember": lambda at: (
        f"artifactregistry/projects/{PROJECT}/locations/{at['location']}/repositories/"
        f"{at['repository'].rpartition('/')[2]}"
    ),
    "secretmanager.SecretIamMember": lambda at: (
        f"secretmanager/projects/{at.get('project', PROJECT)}/secrets/{at['secretId']}"
    ),
    "kms.CryptoKeyIAMMember": lambda at: f"cloudkms/{at['cryptoKeyId']}",
    "serviceaccount.IAMMember": lambda at: f"iam/projects/{PROJECT}/serviceAccounts/{at['serviceAccountId']}",
    "cloudrunv2.ServiceIamMember": lambda at: (
        f"run/projects/{PROJECT}/locations/{at['location']}/services/{at['name']}"
    ),
}
STATE_BUCKET = "tidemill-state-bucket-1a2b3c4"
GOOGLE_KEY = f"projects/{PROJECT}/locations/us-central1/keyRings/tidemill/cryptoKeys/state"


@cache
def google() -> Policy:
    """localcloud's policy: every binding and role of two teams' stacks and of CI in one project."""
    queues = settings("vision-gcp-dev")["tidemill:queues"]
    recorders = [
        run_stack(
            "vision-gcp-dev",
            team=team,
            access={"submitters": [PEOPLE.format(team=team)], "advise": team == "vision"},
            queues={"cpu": {**queues["cpu"], "secrets": {"HF_TOKEN": f"projects/{PROJECT}/secrets/{team}-token"}}},
            data={"read": ["gs://raw-images"], "write": [f"gs://features/{team}/"]},
            monitoring={"job_channels": {"oncall": f"projects/{PROJECT}/topics/{team}-oncall"}},
            worker_image=f"docker.io/team/worker@sha256:{64 * '0'}",
            schedules={"nightly": {"template": "tiles", "cron": "0 2 * * *", "queues": ["cpu"]}},
            arrivals={"tiles": {"template": "tiles", "prefix": "gs://raw-images"}},
        )
        for team in ("vision", "audio")
    ]
    ada = {"submitters": ["user:ada@example.com"], "personal_secrets": True}
    recorders.append(run_stack("vision-gcp-dev", team="ada", access=ada))
    args = GcpCiArgs("example/infra", STATE_BUCKET, GOOGLE_KEY, ["dev"])
    recorders.append(run(lambda: GcpCi("tidemill-ci", args)))
    resources, bindings = Resources(), {}
    for made in [made for recorder in recorders for made in recorder.resources]:
        if made.kind == "projects.IAMCustomRole":
            name = f"iam/projects/{PROJECT}/roles/{made.inputs['roleId']}"
            resources.put(name, {"includedPermissions": made.inputs["permissions"]})
        elif made.kind.lower().endswith("iammember"):
            condition = {"condition": made.inputs["condition"]} if "condition" in made.inputs else {}
            binding = {"role": made.inputs["role"], "members": [made.inputs["member"]], **condition}
            bindings.setdefault(_BOUND_TO[made.kind](made.inputs), []).append(binding)
    for name, some in bindings.items():
        resources.put(name, {})
        resources.set_policy(name, {"bindings": some, "etag": "a"})
    return Policy(resources, PROJECT, Clock())
