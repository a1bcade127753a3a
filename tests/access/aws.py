"""The probes of AWS: team vision's stack `dev`, with its stack `prod`, team audio's stack and CI in one account.

To add one, add a line to `PROBES`. `python -m tests.access` then rewrites docs/access.md.
"""

from __future__ import annotations

from dataclasses import replace

from localcloud.aws.iam import DIRECT, ROLE, Query, refusal
from tests.access import aws_sender
from tests.access.probes import Probe, Thing, no, of, yes
from tests.access.stacks import (
    ACCOUNT,
    CHANNEL,
    NUMBER,
    PATH,
    REGION,
    REPLICA,
    STATE,
    STATE_KEY,
    SUFFIX,
    documents,
    gitlab_trusts,
    of_account,
    personal,
)

EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
ADMITTING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*"}]}
BOUNDARY = of_account("iam", f"policy/tidemill-ci-boundary-{{}}-{SUFFIX}", "")

FILES = of_account("elasticfilesystem", f"file-system/vision-dev-fs-shared-files-{SUFFIX}")

IDENTITIES = {
    "submitter": "a submitter of vision-dev",
    "job": "a job of vision-dev",
    "instance": "a machine of vision-dev",
    "execution": "the execution role of vision-dev",
    "preview": "CI's reader",
    "deploy-dev": "CI's writer of dev",
    "gitlab": f"a pipeline of GitLab, with `ci.repository: {PATH}@{NUMBER}`",
    "made by CI": "a role of dev with every permission, made by CI",
    "ada": "the one submitter of ada-dev, a stack with `personal_secrets`",
    "job of ada": "a job of ada-dev",
    "anyone": "another role of the account, with every permission",
    **aws_sender.IDENTITIES,
}


def allows(probe: Probe) -> bool:
    """The decision of localcloud's evaluator, from the documents that the components produce."""
    if probe.who == "gitlab":
        (statement,) = (trust := gitlab_trusts()[probe.on.name])["Statement"]
        issuer = {f"Federated:{statement['Principal']['Federated']}": DIRECT}
        return (
            refusal(Query(probe.action, probe.on.name, issuer, probe.on.context), [], trust, resource_decides=True)
            is None
        )
    if probe.who in _OF_ADA:
        return _near_ada(probe)
    known = documents()
    made = probe.who == "made by CI"
    role = of_account("iam", f"role/vision-dev-identity-{probe.who}-{SUFFIX}", "")
    caller = {"aws:principalarn": role, "kms:calleraccount": ACCOUNT}
    query = Query(probe.action, probe.on.name, {f"AWS:{role}": ROLE}, {**caller, **probe.on.context})
    policies = [EVERYTHING] if made else known[probe.who]
    own = ADMITTING if probe.on.admits else None
    if probe.on.name == FILES:
        (own,) = known["file system"]
    if probe.on.name == DISKS_KEY.name:
        (own,) = known["key of disks"]
    return refusal(query, policies, own, boundary=known["boundary-dev"][0] if made else None) is None


_OF_ADA = {"ada": "submitter", "job of ada": "job", "anyone": "anyone"}


def _near_ada(probe: Probe) -> bool:
    """The same for a stack of one person, whose secret and submitter role have policies of their own."""
    known, who = personal(), _OF_ADA[probe.who]
    role = of_account("iam", f"role/ada-dev-identity-{who}-{SUFFIX}", "")
    query = Query(probe.action, probe.on.name, {f"AWS:{role}": ROLE}, {"aws:principalarn": role, **probe.on.context})
    own = {ADAS_SECRET.name: known["secret"], ADAS_ROLE.name: known["trust"]}.get(probe.on.name, [None])[0]
    policies = [EVERYTHING] if who == "anyone" else known[who]
    return refusal(query, policies, own, resource_decides=probe.action.startswith("sts:")) is None


def _login(role: str, text: str, subject: str, audience: str = "sts.amazonaws.com") -> Thing:
    called = "CI's reader" if role == "preview" else f"CI's writer of {role.removeprefix('deploy-')}"
    return Thing(f"{called}, {text}", role, {"gitlab.com:sub": subject, "gitlab.com:aud": audience})


def _branch(branch: str, *, protected: bool, number: str = NUMBER) -> str:
    return f"project_id:{number}:ref_type:branch:ref:{branch}:ref_protected:{str(protected).lower()}"


_ENTER = "sts:AssumeRoleWithWebIdentity"


def _tags(kind: str, team: str, environment: str) -> dict[str, str]:
    return {f"aws:{kind}tag/tidemill:team": team, f"aws:{kind}tag/tidemill:environment": environment}


def _job(text: str, **context: str) -> Thing:
    return Thing(text, of_account("batch", "job/0f0e0d0c"), {key.replace("__", ":"): v for key, v in context.items()})


def _in_store(stack: str, key: str) -> Thing:
    return Thing(f"`{key}` in the store of {stack}", f"arn:aws:s3:::{stack}-store-bucket-{SUFFIX}/{key}")


def _bucket(stack: str) -> Thing:
    return Thing(f"the store of {stack}", f"arn:aws:s3:::{stack}-store-bucket-{SUFFIX}")


def _named(service: str, text: str, resource: str, region: str | None = None, **context: str) -> Thing:
    arn = of_account(service, resource) if region is None else of_account(service, resource, region)
    return Thing(text, arn, {key.replace("__", ":").lower(): value for key, value in context.items()})


def _queue(stack: str, **context: str) -> Thing:
    return _named("batch", f"the queue of {stack}", f"job-queue/{stack}-cpu-queue-{SUFFIX}", **context)


def _spot_queue(stack: str, **context: str) -> Thing:
    name = f"job-queue/{stack}-cpu-market-spot-{SUFFIX}"
    return _named("batch", f"the job queue for Spot of {stack}", name, **context)


def _definition(stack: str, **context: str) -> Thing:
    name = f"job-definition/{stack}-cpu-default-{SUFFIX}:1"
    return _named("batch", f"a job definition of {stack}", name, **context)


def _cluster(stack: str) -> Thing:
    return _named("ecs", f"a cluster of {stack}", f"cluster/AWSBatch-{stack}-cpu-spot-{SUFFIX}-0a1b")


def _machine(stack: str, form: str = "AWSBatch-{}-0a1b") -> Thing:
    cluster = form.format(f"{stack}-cpu-spot-{SUFFIX}")
    return _named("ecs", f"a machine in the cluster `{cluster}`", f"container-instance/{cluster}/0c1d")


def _role(name: str, boundary: str = "") -> Thing:
    context = {"iam:permissionsboundary": BOUNDARY.format(boundary)} if boundary else {}
    text = f"the role `{name}`" + (f" with the boundary of {boundary}" if boundary else "")
    return Thing(text, of_account("iam", f"role/{name}", ""), context)


def _service_role(service: str) -> Thing:
    domain = f"{service}.amazonaws.com"
    arn = of_account("iam", f"role/aws-service-role/{domain}/AWSServiceRole", "")
    return Thing(f"the service-linked role of {domain}", arn, {"iam:awsservicename": domain})


def _key(text: str, **tags: str) -> Thing:
    context = {f"aws:{key.replace('_', '/tidemill:')}".lower(): value for key, value in tags.items()}
    return Thing(text, of_account("kms", "key/1234"), context)


_ECRS_GRANT = {"kms:viaservice": "ecr.us-west-2.amazonaws.com", "kms:grantisforawsresource": "true"}


def _secret(text: str, name: str, environment: str = "") -> Thing:
    context = {"aws:resourcetag/tidemill:environment": environment} if environment else {}
    return Thing(text, of_account("secretsmanager", f"secret:{name}-AbCdEf"), context)


def _files(text: str, point: str = "vision-dev-fs-shared", secure: str = "true", **tags: str) -> Thing:
    context = {
        "elasticfilesystem:accesspointarn": of_account("elasticfilesystem", f"access-point/{point}-access-{SUFFIX}"),
        "elasticfilesystem:accessedviamounttarget": "true",
        "aws:securetransport": secure,
    }
    tagged = {f"aws:{key.lower()}tag/tidemill:environment": value for key, value in tags.items()}
    return Thing(text, FILES, context | tagged)


def _template(text: str, **tags: str) -> Thing:
    context = {f"aws:{kind}tag/tidemill:environment": value for kind, value in tags.items()}
    return Thing(text, of_account("ec2", "launch-template/lt-0123456789abcdef0"), context)


def _state(key: str) -> Thing:
    return Thing(f"`{key}` of the state", f"{STATE}/{key}")


ADAS = {"aws:requesttag/tidemill:team": "ada"}
ASKED = {"aws:requesttag/tidemill:team": "vision"}
NEW = _job("a new job, for team vision", **ASKED)
OWN, AUDIOS, PRODS = (
    _job(f"a job of {team}-{environment}", **_tags("resource", team, environment))
    for team, environment in (("vision", "dev"), ("audio", "dev"), ("vision", "prod"))
)
CLAIM_AUDIOS = _job("a job of audio-dev, for team vision", **ASKED, **_tags("resource", "audio", "dev"))
CLAIM_PRODS = _job("a job of vision-prod, for team vision", **ASKED, **_tags("resource", "vision", "prod"))
SHARED = replace(_queue("vision-dev", **ASKED, **{"batch:ShareIdentifier": "b"}), text="its queue, in another's share")
PROJECT = replace(
    _queue("vision-dev", **ASKED, **{"aws:requesttag/project": "tides"}), text="its queue, with another tag"
)
UNTAGGED = replace(_queue("vision-dev"), text="its queue, without the team's tag")
STRAY = _job("a job without tags, such as another tool's, for team vision", **ASKED)
ADAS_SECRET = Thing(
    "the personal secrets of ada-dev", of_account("secretsmanager", f"secret:ada-dev-identity-secrets-{SUFFIX}")
)
ADAS_ROLE = _role(f"ada-dev-identity-submitter-{SUFFIX}")
OWN_SECRET = _secret("the secret of its queue", "vision/token", "dev")
AUDIOS_SECRET = _secret("a secret of audio-dev", "audio/token", "dev")
PRODS_SECRET = _secret("a secret with the tag of prod", "vision/token", "prod")
PRODS_ROLE = _role(f"vision-prod-identity-job-{SUFFIX}", "dev")
OWN_STACK, PRODS_STACK = (
    _state(f".pulumi/stacks/tidemill/vision-{environment}.json") for environment in ("dev", "prod")
)
BOOTSTRAP = _state(".pulumi/stacks/tidemill-bootstrap/vision-dev.json")
COPY = Thing("a state in the replica", f"{REPLICA}/.pulumi/stacks/tidemill/vision-dev.json")
DISKS_KEY = Thing(
    "the key of vision-dev's disks, for a disk of a machine",
    of_account("kms", f"key/vision-dev-disks-key-{SUFFIX}"),
    {"kms:grantisforawsresource": "true", "aws:resourcetag/tidemill:environment": "dev"},
)
STATES_KEY = Thing("the key of the state", STATE_KEY)
DEV_KEY, PROD_KEY = (_key(f"a key with the tag of {each}", ResourceTag_environment=each) for each in ("dev", "prod"))
GRANTED_KEY, PRODS_GRANTED_KEY = (
    Thing(f"{key.text}, for a grant that ECR asks for", key.name, {**key.context, **_ECRS_GRANT})
    for key in (DEV_KEY, PROD_KEY)
)
CLAIM_KEY = _key("a key with the tag of prod, for dev", ResourceTag_environment="prod", RequestTag_environment="dev")
ANY_KEY = _key("a key without the tag, for dev", RequestTag_environment="dev")
GIVEN_KEY = _key("a key with the tag of dev, for prod", ResourceTag_environment="dev", RequestTag_environment="prod")
BUCKET = Thing("`a.jpg` in raw-images, which the stack declares", "arn:aws:s3:::raw-images/a.jpg")
OTHERS_BUCKET = Thing("`a.jpg` in a bucket that no one declares", "arn:aws:s3:::payroll/a.jpg")
NAMED_LIKE_DEV = _in_store("vision-prod", "out/x-dev-store/y")
CIS_WRITER = _role(f"tidemill-ci-deploy-dev-{SUFFIX}")
FEDERATED = Thing(
    "`out/a` in the store of vision-dev, in a session that GitHub's token made",
    _in_store("vision-dev", "out/a").name,
    {"aws:federatedprovider": of_account("iam", "oidc-provider/token.actions.githubusercontent.com", "")},
)
_ENVIRONMENTS = ("dev", "prod")
ALARM = {
    each: _named("cloudwatch", f"an alarm of vision-{each}", f"alarm:vision-{each}-monitoring-cpu-failed-{SUFFIX}")
    for each in _ENVIRONMENTS
}
DASHBOARD = {
    each: _named("cloudwatch", f"the dashboard of vision-{each}", f"dashboard/vision-{each}", "")
    for each in _ENVIRONMENTS
}
RULE = {
    each: _named("events", f"a rule of vision-{each}", f"rule/vision-{each}-monitoring-stuck-{SUFFIX}")
    for each in _ENVIRONMENTS
}
TOPIC = {
    each: _named("sns", f"the alarms' topic of vision-{each}", f"vision-{each}-monitoring-alarms-{SUFFIX}")
    for each in _ENVIRONMENTS
}
ANY_GROUP = _named("ec2", "a security group", "security-group/sg-0123")
CHANNEL_TOPIC = Thing("the stack's topic for jobs", CHANNEL)
REPOSITORY = {
    stack: _named("ecr", f"a repository of {stack}", f"repository/{stack}/preprocess")
    for stack in ("vision-dev", "audio-dev", "vision-prod")
}
NEIGHBOURS = _named("ecr", "a repository of vision-dev-two", "repository/vision-dev-two/preprocess")
WORKERS = _named("ecr", "the worker's repository", "repository/vision-dev/tidemill-worker")
CACHED, UNCACHED = (
    _named("ecr", f"the cache's repository of {image}", f"repository/docker-hub/library/{image}")
    for image in ("python", "redis")
)
UPLOAD = _in_store("vision-dev", "uploads/0a/a.jpg")
SNAPSHOT = _in_store("vision-dev", "state/a/0/snapshots/1.json")
POINTER = _in_store("vision-dev", "machines/cpu/worker")
REMOVAL = _in_store("vision-dev", "removals/tiles-0123abcd")
ARCHIVE = {stack: _in_store(stack, "logs/2026/11/22/09/a.json.gz") for stack in ("vision-dev", "audio-dev")}
ANY_QUERY = Thing("any saved query", "*")
LOGS = {
    stack: _named("logs", f"the log lines of {stack}", f"log-group:{stack}-logs-group-{SUFFIX}:log-stream:a")
    for stack in ("vision-dev", "audio-dev", "vision-prod")
}
CALLED_DEV = _named("batch", "a queue of vision-prod that is called dev", f"job-queue/vision-prod-dev-queue-{SUFFIX}")

CAPACITY = Thing("the capacity of its region", "*", {"aws:requestedregion": REGION})
OTHERS_CAPACITY = Thing("the capacity of another region, asked there", "*", {"aws:requestedregion": "eu-west-1"})
OTHERS_PRICES = Thing("Spot prices of another region", "*", {"aws:requestedregion": "eu-west-1"})
NEW_TEMPLATE, PEOPLES_TEMPLATE, CLAIM_TEMPLATE = (
    _template("a new launch template with the tag of dev", request="dev"),
    _template("a launch template without the tag"),
    _template("a launch template without the tag, for dev", request="dev"),
)
FLOWS = {
    each: Thing(
        f"a flow log with the tag of {each}",
        of_account("ec2", "vpc-flow-log/fl-0"),
        {"aws:resourcetag/tidemill:environment": each},
    )
    for each in _ENVIRONMENTS
}
PEOPLES_FLOWS = _named("ec2", "a flow log without the tag", "vpc-flow-log/fl-1")
TEMPLATE = {each: _template(f"a launch template with the tag of {each}", resource=each) for each in _ENVIRONMENTS}
PEOPLES_ROLE = _role("payments-dev-admin")
SUBMITTERS_ROLE, UNBOUND_ROLE = (_role(f"vision-dev-identity-submitter-{SUFFIX}", each) for each in ("dev", ""))
OFFERED_POLICY = _named(
    "iam", "the submitter policy of an older stack", f"policy/vision-dev-identity-submitter-{SUFFIX}", ""
)
PEOPLES_POLICY = _named("iam", "the policy `payments-dev-access`", "policy/payments-dev-access", "")
ANY_MACHINE = Thing("the account's machines", "*")
SHARED_FILES = _files("its stack's file system, through the access point and with TLS")
BARE_FILES = _files("its stack's file system, through another access point", point="other")
PLAIN_FILES = _files("its stack's file system, without TLS", secure="false")
NEW_FILES, DEV_FILES, PROD_FILES = (
    _files(f"a {text} file system with the tag of {each}", **{kind: each})
    for text, kind, each in (("new", "request", "dev"), ("stack's", "resource", "dev"), ("stack's", "resource", "prod"))
)
GIVEN_FILES = _files("a stack's file system with the tag of dev, for prod", resource="dev", request="prod")
CLAIM_FILES = _files("a stack's file system with the tag of prod, for dev", resource="prod", request="dev")
ITS_BOUNDARY = Thing("its boundary", BOUNDARY.format("dev"))
PRODS_STORE = Thing("the store of vision-prod", f"arn:aws:s3:::vision-prod-store-bucket-{SUFFIX}")
OWN_MADE = Thing("a role that trusts the writer", of_account("iam", "role/x-dev-y", ""), admits=True)
USER = _named("iam", "a user", "user/x-dev-y", "")

PROBES = [
    *of(
        "submitter",
        yes("batch:SubmitJob", _queue("vision-dev", **ASKED), "It is what a submitter is for."),
        yes("batch:SubmitJob", _definition("vision-dev", **ASKED), "Batch asks for queue and image."),
        yes("batch:SubmitJob", PROJECT, "`--tag` adds tags of the caller's own."),
        no("batch:SubmitJob", UNTAGGED, "A job without its team's tag belongs to no one."),
        yes("batch:SubmitJob", SHARED, "A team's users trust each other, so shares are a courtesy."),
        no("batch:SubmitJob", _queue("audio-dev", **ASKED), "The queue is another team's."),
        no("batch:SubmitJob", _definition("audio-dev", **ASKED), "Its roles are another team's."),
        no("batch:SubmitJob", _queue("vision-prod", **ASKED), "The queue is another environment's."),
        yes("batch:SubmitJob", _spot_queue("vision-dev", **ASKED), "Its owner lists Spot under per_job.markets."),
        no("batch:SubmitJob", _spot_queue("audio-dev", **ASKED), "The queue is another team's."),
        no("batch:SubmitJob", _spot_queue("vision-prod", **ASKED), "The queue is another environment's."),
        no("batch:UpdateJobQueue", _spot_queue("vision-dev"), "Queues are the stack's."),
        yes("batch:TagResource", NEW, "A job that SubmitJob makes gets the team's tag."),
        yes("batch:TagResource", STRAY, "It looks like a job that SubmitJob makes: a known limit (ADR 26)."),
        no("batch:TagResource", CLAIM_AUDIOS, "A user who tags a job for their own team could end it."),
        no("batch:TagResource", CLAIM_PRODS, "A user who tags a job for their own team could end it."),
        no("batch:TagResource", _definition("audio-dev", **ASKED), "It is another team's."),
        no("batch:UntagResource", AUDIOS, "A job without a tag could be claimed."),
        yes("batch:TerminateJob", OWN, "`tidemill cancel` ends the team's jobs."),
        no("batch:TerminateJob", AUDIOS, "The job is another team's."),
        no("batch:TerminateJob", PRODS, "The job is another environment's."),
        no("batch:CancelJob", AUDIOS, "The job is another team's."),
        no("batch:RegisterJobDefinition", _definition("vision-dev"), "It may mount the machine's root."),
        no("batch:UpdateJobQueue", _queue("vision-dev"), "Queues are the stack's."),
        yes("s3:GetObject", _in_store("vision-dev", "pipeline.json"), "Clients read it first."),
        no("s3:PutObject", _in_store("vision-dev", "pipeline.json"), "Every client believes it."),
        no("s3:PutObject", POINTER, "Machines run what lies there."),
        no("s3:PutObject", REMOVAL, "Only who may delete begins a removal."),
        yes("s3:PutObject", _in_store("vision-dev", "jobs/a/job.json"), "A submit writes the job."),
        yes("s3:PutObject", UPLOAD, "A submit brings local files."),
        no("s3:DeleteObject", UPLOAD, "Another job may need it."),
        yes("s3:GetObject", SNAPSHOT, "`status` shows how much of it is saved, `fetch` brings it."),
        no("s3:PutObject", SNAPSHOT, "A snapshot is the word of a worker."),
        no("s3:PutObject", _in_store("vision-dev", "out/a/0"), "Outputs are the workers'."),
        no("s3:PutObject", _in_store("audio-dev", "jobs/a/job.json"), "The store is another team's."),
        no("s3:PutObject", _in_store("audio-dev", "uploads/0a/a.jpg"), "The store is another team's."),
        no("s3:GetObject", _in_store("vision-prod", "out/a"), "It is another environment's."),
        no("s3:DeleteObject", _in_store("vision-dev", "out/a"), "Nothing that finished is lost."),
        no("s3:DeleteObject", _in_store("vision-dev", "jobs/a/job.json"), "`tidemill rm` is for the stack's owner."),
        no("s3:DeleteObject", SNAPSHOT, "`tidemill rm` is for the stack's owner."),
        yes("logs:GetLogEvents", LOGS["vision-dev"], "`tidemill logs` shows them."),
        no("logs:GetLogEvents", LOGS["audio-dev"], "The lines are another team's."),
        yes("logs:StartQuery", LOGS["vision-dev"], "`tidemill logs --grep` searches a whole job."),
        no("logs:StartQuery", LOGS["audio-dev"], "The lines are another team's."),
        no("logs:StartQuery", LOGS["vision-prod"], "The lines are another environment's."),
        no("s3:GetObject", ARCHIVE["vision-dev"], "The archive is for the stack's owner."),
        no("s3:GetObject", ARCHIVE["audio-dev"], "The lines are another team's."),
        no("s3:PutObject", ARCHIVE["vision-dev"], "Only Firehose writes it."),
        no("logs:PutQueryDefinition", ANY_QUERY, "Stacks save queries."),
        no("logs:DescribeQueries", LOGS["audio-dev"], "It would show ids of other teams' queries."),
        yes("ecr:BatchGetImage", REPOSITORY["vision-dev"], "With arm64 queues: which processors an image is for."),
        no("ecr:BatchGetImage", REPOSITORY["audio-dev"], "The images are another team's."),
        no("ecr:BatchGetImage", NEIGHBOURS, "Its name only begins like this stack's."),
        no("ecr:PutImage", REPOSITORY["vision-dev"], "CI or a builder pushes images."),
        yes("sns:Publish", CHANNEL_TOPIC, "Who cancels a job tells its end."),
        no("sns:Publish", TOPIC["dev"], "Only alarms and rules publish."),
        yes("ec2:GetSpotPlacementScores", CAPACITY, "With `access.advise`: `tidemill advise` asks it."),
        no("ec2:GetSpotPlacementScores", OTHERS_CAPACITY, "Its own region answers for others."),
        yes("ec2:DescribeSpotPriceHistory", OTHERS_PRICES, "With `access.advise`: regions are compared."),
        no("ec2:DescribeInstances", ANY_MACHINE, "Advice is about what AWS has, not about what others run."),
        no("ec2:RequestSpotInstances", ANY_MACHINE, "Advice starts nothing."),
        no("ec2:RunInstances", _named("ec2", "a new machine", "instance/*"), "Batch starts machines."),
        no("secretsmanager:GetSecretValue", OWN_SECRET, "Only containers get secrets."),
        no("secretsmanager:GetSecretValue", ADAS_SECRET, "They are one person's."),
        no("iam:PassRole", _role(f"vision-dev-identity-job-{SUFFIX}"), "It would be the job's role."),
        no("sts:AssumeRole", CIS_WRITER, "Only GitHub's tokens become CI."),
    ),
    *of(
        "job",
        yes("s3:GetObject", _in_store("vision-dev", "jobs/a/job.json"), "A worker reads its job."),
        yes("s3:GetObject", UPLOAD, "Items may be files that a submitter brought."),
        no("s3:PutObject", UPLOAD, "User code must not change what other jobs read."),
        no("kms:Decrypt", DISKS_KEY, "The roles of AWS that start machines do."),
        yes("s3:PutObject", SNAPSHOT, "A worker saves the state of an item."),
        yes("s3:GetObject", SNAPSHOT, "The next worker restores it."),
        no("s3:DeleteObject", SNAPSHOT, "A snapshot must outlive whatever comes after it."),
        no("s3:GetObject", _in_store("audio-dev", "state/a/0/snapshots/1.json"), "The state is another team's."),
        yes("s3:PutObject", _in_store("vision-dev", "out/a/0"), "A worker writes outputs."),
        no("s3:PutObject", _in_store("vision-dev", "pipeline.json"), "User code must not steer clients."),
        no("s3:GetObject", ARCHIVE["vision-dev"], "The archive is for the stack's owner."),
        no("s3:PutObject", POINTER, "User code must not choose what machines run."),
        no("s3:PutObject", REMOVAL, "Only who may delete begins a removal."),
        no("s3:DeleteObject", _in_store("vision-dev", "out/a/0"), "Nothing that finished is lost."),
        no("s3:GetObject", _in_store("audio-dev", "jobs/a/job.json"), "The store is another team's."),
        no("s3:GetObject", _in_store("vision-prod", "out/a/0"), "The store is another environment's."),
        yes("s3:GetObject", BUCKET, "The stack file lists it under data.read."),
        no("s3:PutObject", BUCKET, "It is under data.read and not under data.write."),
        no("s3:GetObject", OTHERS_BUCKET, "The stack file does not list it."),
        no("batch:SubmitJob", _queue("vision-dev", **ASKED), "User code starts no jobs."),
        no("batch:SubmitJob", _spot_queue("vision-dev", **ASKED), "User code starts no jobs."),
        yes("sns:Publish", CHANNEL_TOPIC, "The worker of a job's last chunk tells its end."),
        no("sns:Publish", TOPIC["dev"], "Only alarms and rules publish."),
        no("sns:Subscribe", CHANNEL_TOPIC, "Nothing on a machine reads what others were told."),
        no("secretsmanager:GetSecretValue", OWN_SECRET, "Secrets come as variables, from the agent."),
        no("secretsmanager:GetSecretValue", ADAS_SECRET, "They are for jobs of another stack."),
        no("s3:GetObject", POINTER, "Containers ask the machine, which reads it."),
        no("s3:PutObject", _in_store("vision-dev", "logs/2026/a.json.gz"), "Only Firehose writes it."),
        no("batch:RegisterJobDefinition", _definition("vision-dev"), "It may mount the machine's root."),
        no("batch:TerminateJob", OWN, "User code ends no other jobs."),
        no("ecr:BatchGetImage", WORKERS, "The machine brings the worker."),
        no("ecs:RegisterContainerInstance", _cluster("vision-dev"), "It would get other tasks' credentials."),
        no("iam:PassRole", _role(f"vision-dev-identity-execution-{SUFFIX}"), "It would be another role's."),
        no("ec2:GetSpotPlacementScores", CAPACITY, "An account may ask few such questions per day."),
        no("sts:AssumeRole", _role(f"vision-dev-identity-execution-{SUFFIX}"), "Its role is its own."),
        yes("elasticfilesystem:ClientMount", SHARED_FILES, "A queue mounts it."),
        yes("elasticfilesystem:ClientWrite", SHARED_FILES, "A queue mounts it to write."),
        no("elasticfilesystem:ClientMount", BARE_FILES, "Jobs see one folder, as one user."),
        no("elasticfilesystem:ClientMount", PLAIN_FILES, "Files would cross the network in the clear."),
        no("elasticfilesystem:ClientRootAccess", SHARED_FILES, "No job is its root user."),
        no("elasticfilesystem:DeleteFileSystem", DEV_FILES, "User code takes no data away."),
    ),
    *of(
        "ada",
        yes("secretsmanager:PutSecretValue", ADAS_SECRET, "`tidemill secret set` and `rm` do."),
        yes(
            "secretsmanager:GetSecretValue",
            ADAS_SECRET,
            "A change keeps the other values, and a submit looks for its own.",
        ),
        no("secretsmanager:GetSecretValue", OWN_SECRET, "The secret is another team's."),
        no("secretsmanager:DeleteSecret", ADAS_SECRET, "The stack does."),
        no("secretsmanager:PutResourcePolicy", ADAS_SECRET, "It says who may read it."),
        no(
            "secretsmanager:ListSecrets", _named("secretsmanager", "the account's secrets", "*"), "It would show names."
        ),
        yes("batch:SubmitJob", _queue("ada-dev", **ADAS), "It is what a submitter is for."),
    ),
    *of(
        "job of ada",
        yes("secretsmanager:GetSecretValue", ADAS_SECRET, "Its worker gives its programs what the job names."),
        no("secretsmanager:PutSecretValue", ADAS_SECRET, "User code changes no secret."),
        no("secretsmanager:GetSecretValue", OWN_SECRET, "The secret is another team's."),
    ),
    *of(
        "anyone",
        no("secretsmanager:GetSecretValue", ADAS_SECRET, "The secret's own policy denies it."),
        no("secretsmanager:PutSecretValue", ADAS_SECRET, "The secret's own policy denies it."),
        yes("secretsmanager:PutResourcePolicy", ADAS_SECRET, "Administrators of the account remain."),
        yes("secretsmanager:GetSecretValue", OWN_SECRET, "It has no policy of its own here."),
        no("sts:AssumeRole", ADAS_ROLE, "Its trust names one user."),
    ),
    *of(
        "instance",
        yes("ecs:Poll", _machine("vision-dev"), "The agent asks for work."),
        yes("ecs:Poll", _machine("vision-dev", "{}_Batch_0a1b"), "Batch also names clusters so."),
        yes("ecs:RegisterContainerInstance", _cluster("vision-dev"), "The agent joins."),
        no("kms:CreateGrant", DISKS_KEY, "The roles of AWS that start machines do; none could pass the key on."),
        no("kms:Decrypt", DISKS_KEY, "A copy of a disk stays closed to a machine's programs."),
        no("ecs:Poll", _machine("audio-dev"), "It would be given another team's credentials."),
        no("ecs:UpdateContainerInstancesState", _machine("audio-dev"), "It would drain its machines."),
        no("ecs:DeregisterContainerInstance", _cluster("audio-dev"), "It would take its machines away."),
        no("ecs:SubmitTaskStateChange", _cluster("audio-dev"), "It would report its tasks as stopped."),
        no("ecs:SubmitTaskStateChange", _cluster("vision-prod"), "They are another environment's."),
        yes("s3:GetObject", POINTER, "It names the worker that a new machine fetches."),
        no("s3:PutObject", POINTER, "The stack writes it."),
        yes("ecr:GetDownloadUrlForLayer", WORKERS, "It fetches the worker."),
        no("ecr:PutImage", WORKERS, "A machine pushes nothing."),
        no("s3:GetObject", _in_store("vision-dev", "out/a/0"), "A machine reads no data."),
        no("s3:GetObject", _in_store("vision-prod", "machines/cpu/worker"), "It is another environment's."),
        no("ecr:GetDownloadUrlForLayer", REPOSITORY["audio-dev"], "The images are another team's."),
        no("sts:AssumeRole", _role(f"vision-dev-identity-job-{SUFFIX}"), "Its role is its own."),
        no("iam:PassRole", _role(f"vision-dev-identity-job-{SUFFIX}"), "It would be the job's role."),
        no("batch:SubmitJob", _queue("vision-dev", **ASKED), "A machine starts no jobs."),
        no("secretsmanager:GetSecretValue", OWN_SECRET, "The execution role does."),
        no("ecr:BatchGetImage", REPOSITORY["vision-dev"], "The execution role does."),
        no("ecr:BatchImportUpstreamImage", CACHED, "The execution role does."),
        no("ec2:TerminateInstances", _named("ec2", "a machine", "instance/i-0"), "Batch ends machines."),
        no("elasticfilesystem:ClientMount", SHARED_FILES, "ECS mounts with the job's role."),
    ),
    *of(
        "execution",
        yes("secretsmanager:GetSecretValue", OWN_SECRET, "The queue names it."),
        no("secretsmanager:GetSecretValue", AUDIOS_SECRET, "No queue of the stack names it."),
        yes("logs:PutLogEvents", LOGS["vision-dev"], "The containers' lines."),
        no("logs:PutLogEvents", LOGS["audio-dev"], "The lines are another team's."),
        yes("ecr:BatchGetImage", REPOSITORY["vision-dev"], "The queues' images."),
        no("ecr:BatchGetImage", REPOSITORY["audio-dev"], "The images are another team's."),
        no("ecr:BatchGetImage", NEIGHBOURS, "Its name only begins like this stack's."),
        no("ecr:PutImage", REPOSITORY["vision-dev"], "Nothing that runs changes what will run."),
        yes("ecr:BatchGetImage", CACHED, "A queue's image comes from a mirror."),
        yes("ecr:BatchImportUpstreamImage", CACHED, "The cache may not have the image yet."),
        no("ecr:BatchImportUpstreamImage", UNCACHED, "No queue names the image."),
        no("ecr:BatchImportUpstreamImage", REPOSITORY["vision-dev"], "It is in no mirror."),
        no("ecr:CreateRepository", CACHED, "The cache's owner makes its repositories."),
        no("s3:GetObject", _in_store("vision-dev", "jobs/a/job.json"), "The job role does."),
    ),
    *of(
        "preview",
        yes("s3:GetObject", PRODS_STACK, "A preview reads the state of its stack."),
        no("s3:PutObject", OWN_STACK, "A pull request changes nothing."),
        no("s3:GetObject", COPY, "Only administrators use the replica."),
        yes("s3:GetObject", _in_store("vision-prod", "pipeline.json"), "It holds no secret."),
        yes("s3:GetObject", POINTER, "It names the worker."),
        no("s3:GetObject", _in_store("vision-prod", "out/a/0"), "Data is none of CI's."),
        no("s3:GetObject", _in_store("vision-prod", "out/a/0/machines/0.jpg"), "Data is none of CI's."),
        no("secretsmanager:GetSecretValue", PRODS_SECRET, "Secrets are none of CI's."),
        yes("ec2:GetSpotPlacementScores", CAPACITY, "A review tells of Spot fleets with a low score."),
        no("ec2:RequestSpotInstances", ANY_MACHINE, "A preview starts nothing."),
        no("batch:SubmitJob", _queue("vision-dev", **ASKED), "CI runs no jobs."),
        no("sts:AssumeRole", CIS_WRITER, "GitHub decides who deploys."),
        yes("ec2:DescribeSecurityGroupRules", ANY_GROUP, "A drift check tells of rules that were added by hand."),
        no("ec2:AuthorizeSecurityGroupIngress", ANY_GROUP, "A drift check opens nothing."),
        no("ec2:RevokeSecurityGroupIngress", ANY_GROUP, "A drift check closes nothing."),
        yes("iam:ListAttachedRolePolicies", SUBMITTERS_ROLE, "A drift check tells of policies added by hand."),
        no("iam:DetachRolePolicy", SUBMITTERS_ROLE, "A drift check takes nothing away."),
        no("s3:PutBucketPolicy", _bucket("vision-dev"), "A drift check reads a bucket's policy, and writes none."),
    ),
    *of(
        "deploy-dev",
        yes("s3:PutObject", OWN_STACK, "The state of its environment's stacks."),
        yes("s3:PutObject", POINTER, "A release tells new machines its worker."),
        no("s3:PutObject", PRODS_STACK, "The state is another environment's."),
        no("s3:DeleteObject", PRODS_STACK, "The state is another environment's."),
        no(
            "s3:PutObject",
            _state(".pulumi/locks/organization/tidemill/vision-prod/x.json"),
            "A lock would stop another environment's deploys.",
        ),
        no("s3:PutBucketPolicy", Thing("the bucket of the state", STATE), "It is the bootstrap's."),
        no("s3:PutObject", BOOTSTRAP, "An administrator's next `up` would do what a forged state says."),
        no("kms:PutKeyPolicy", STATES_KEY, "It is the bootstrap's."),
        no("s3:PutObject", COPY, "S3 alone writes the replica."),
        no("s3:DeleteObject", COPY, "The replica is for when the state is lost."),
        yes("iam:CreateRole", _role("vision-dev-identity-job", "dev"), "Stacks make roles."),
        no("iam:CreateRole", _role("vision-dev-identity-job"), "Without a boundary it may be anything."),
        no("iam:CreateRole", _role("vision-dev-identity-job", "prod"), "It could read prod's data."),
        no("iam:PutRolePolicy", PRODS_ROLE, "The role is another environment's."),
        no("iam:UpdateAssumeRolePolicy", _role(f"vision-prod-dev-x-{SUFFIX}"), "It is prod's, whatever it is called."),
        no("iam:UpdateAssumeRolePolicy", PEOPLES_ROLE, "No stack makes a role of such a name."),
        no("iam:PassRole", PEOPLES_ROLE, "A job definition could have it."),
        no("iam:CreatePolicyVersion", PEOPLES_POLICY, "It would change what people's roles may do."),
        no("iam:CreatePolicyVersion", OFFERED_POLICY, "People may have attached it to roles without a boundary."),
        no("iam:SetDefaultPolicyVersion", OFFERED_POLICY, "People may have attached it to roles without a boundary."),
        no("iam:CreatePolicy", OFFERED_POLICY, "Nothing bounds a policy: stacks with a boundary have none."),
        yes("iam:DeletePolicy", OFFERED_POLICY, "It goes from an older stack; IAM refuses while anyone has it."),
        no("iam:AttachRolePolicy", PEOPLES_ROLE, "It has no boundary."),
        no("iam:AttachUserPolicy", USER, "Stacks have no users."),
        yes("iam:PutRolePolicy", SUBMITTERS_ROLE, "Submitters' rights are in a role that the boundary bounds."),
        no("iam:PutRolePolicy", UNBOUND_ROLE, "Without a boundary it may be anything."),
        no("iam:DeleteRolePermissionsBoundary", SUBMITTERS_ROLE, "Then nothing would bound it."),
        no("ecr:PutImage", WORKERS, "A deploy names a worker and pushes none."),
        no("iam:UpdateAssumeRolePolicy", CIS_WRITER, "CI does not change itself."),
        no("iam:CreatePolicyVersion", ITS_BOUNDARY, "CI does not change what bounds it."),
        no("sts:AssumeRole", OWN_MADE, "It would be whatever it makes."),
        yes("batch:UpdateJobQueue", _queue("vision-dev"), "Its environment's queue."),
        no("batch:UpdateJobQueue", _queue("vision-prod"), "The queue is another environment's."),
        no("batch:UpdateJobQueue", CALLED_DEV, "It is prod's, whatever it is called."),
        yes("logs:PutIndexPolicy", LOGS["vision-dev"], "Stacks index their logs."),
        no("logs:PutIndexPolicy", LOGS["vision-prod"], "The lines are another environment's."),
        no("logs:PutQueryDefinition", ANY_QUERY, "It has no ARN: CI could change every query of the account."),
        no("logs:StartQuery", LOGS["vision-dev"], "CI reads no lines."),
        yes("cloudwatch:PutMetricAlarm", ALARM["dev"], "Stacks make alarms."),
        no("cloudwatch:DeleteAlarms", ALARM["prod"], "It would blind another environment."),
        yes("cloudwatch:PutDashboard", DASHBOARD["dev"], "Stacks make dashboards."),
        no("cloudwatch:PutDashboard", DASHBOARD["prod"], "The dashboard is another environment's."),
        yes("events:PutTargets", RULE["dev"], "Stacks tell what Batch says of their queues."),
        no("events:PutTargets", RULE["prod"], "It would send another environment's events elsewhere."),
        yes("sns:Subscribe", TOPIC["dev"], "Stacks make the topic of their alarms."),
        no("sns:Subscribe", TOPIC["prod"], "It would read another environment's alarms."),
        no("sns:Publish", TOPIC["dev"], "Only alarms and rules publish."),
        no("s3:GetObject", _in_store("vision-dev", "out/a/0"), "A deploy reads no data."),
        yes("s3:DeleteObject", _in_store("vision-dev", "out/a/0"), "A store that is purged is emptied."),
        no("s3:DeleteObject", NAMED_LIKE_DEV, "A wildcard also matches what follows a slash."),
        no("s3:PutBucketPolicy", PRODS_STORE, "The store is another environment's."),
        yes("kms:ScheduleKeyDeletion", DEV_KEY, "A stack that goes takes its keys with it."),
        no("kms:ScheduleKeyDeletion", PROD_KEY, "What it encrypts is another environment's."),
        yes("kms:CreateGrant", GRANTED_KEY, "ECR encrypts a repository's images with it."),
        no("kms:CreateGrant", DEV_KEY, "A grant of one's own would outlive the role's permissions."),
        no("kms:CreateGrant", PRODS_GRANTED_KEY, "What it encrypts is another environment's."),
        no("kms:TagResource", CLAIM_KEY, "It could be deleted as dev's then."),
        yes("kms:TagResource", ANY_KEY, "A key that is being made has no tags yet, and neither has a stray one."),
        yes("kms:TagResource", DEV_KEY, "A stack's company tags change."),
        no("kms:TagResource", PROD_KEY, "Its tags are another environment's."),
        no("kms:TagResource", GIVEN_KEY, "It would be taken for prod's."),
        yes("elasticfilesystem:CreateFileSystem", NEW_FILES, "Stacks make file systems."),
        yes("elasticfilesystem:TagResource", DEV_FILES, "A stack's company tags change."),
        no("elasticfilesystem:TagResource", PROD_FILES, "Its tags are another environment's."),
        no("elasticfilesystem:TagResource", GIVEN_FILES, "It would be taken for prod's."),
        no("elasticfilesystem:TagResource", CLAIM_FILES, "It could be deleted as dev's then."),
        yes("iam:CreateServiceLinkedRole", _service_role("elasticfilesystem"), "EFS needs it once in an account."),
        no("iam:CreateServiceLinkedRole", _service_role("organizations"), "Stacks need no other service."),
        yes("elasticfilesystem:PutFileSystemPolicy", DEV_FILES, "It says who mounts it."),
        no("elasticfilesystem:DeleteFileSystem", PROD_FILES, "Its files are another environment's."),
        no("elasticfilesystem:PutFileSystemPolicy", PROD_FILES, "It would let dev's jobs in."),
        no("elasticfilesystem:ClientMount", DEV_FILES, "A deploy reads no data."),
        yes("ec2:CreateLaunchTemplate", NEW_TEMPLATE, "Machines are made from it."),
        yes("ec2:CreateLaunchTemplateVersion", TEMPLATE["dev"], "Its environment's machines."),
        no("ec2:CreateLaunchTemplateVersion", TEMPLATE["prod"], "It would decide what prod's machines run."),
        no("ec2:CreateLaunchTemplateVersion", PEOPLES_TEMPLATE, "Machines of people's own start from it."),
        no("ec2:CreateTags", CLAIM_TEMPLATE, "It could be changed as dev's then."),
        yes("ec2:DeleteFlowLogs", FLOWS["dev"], "It is its environment's network."),
        no("ec2:DeleteFlowLogs", FLOWS["prod"], "It would hide what prod's machines talk to."),
        no("ec2:DeleteFlowLogs", PEOPLES_FLOWS, "A security team's would end."),
        no("ec2:CreateFlowLogs", PEOPLES_FLOWS, "It could not be told from people's own."),
        yes("iam:CreateRole", _role(f"vision-dev-network-flows-{SUFFIX}", "dev"), "Flow logs are written by a role."),
        yes("ec2:DeleteVpc", _named("ec2", "any VPC", "vpc/vpc-0"), "Networks have ids for names."),
        no("ec2:RunInstances", _named("ec2", "a machine", "instance/*"), "Batch starts machines."),
        no("secretsmanager:GetSecretValue", OWN_SECRET, "Secrets are none of CI's."),
    ),
    *of(
        "gitlab",
        yes(
            _ENTER, _login("preview", "from a branch", _branch("mine", protected=False)), "Merge requests are reviewed."
        ),
        no(_ENTER, _login("preview", "from a tag", f"project_id:{NUMBER}:ref_type:tag:ref:v1"), "Tags review nothing."),
        no(
            _ENTER,
            _login("preview", "from another project", _branch("main", protected=True, number="43")),
            "A fork's own pipelines are the fork's, and a project that gets the path later has another number.",
        ),
        no(
            _ENTER,
            _login("preview", "by the path alone", f"project_path:{PATH}:ref_type:branch:ref:main"),
            "A path can be used again by others.",
        ),
        no(
            _ENTER,
            _login("deploy-prod", "from a branch", _branch("mine", protected=False)),
            "Only `ci.branch` deploys.",
        ),
        no(
            _ENTER,
            _login("deploy-prod", "from `main` without protection", _branch("main", protected=False)),
            "Whoever may push to it would deploy.",
        ),
        no(
            _ENTER,
            _login("deploy-prod", "for another audience", _branch("main", protected=True), "other"),
            "The token is for somebody else.",
        ),
        yes(_ENTER, _login("deploy-dev", "from `main`", _branch("main", protected=True)), "It deploys what is merged."),
        yes(
            _ENTER,
            _login("deploy-prod", "from `main`", _branch("main", protected=True)),
            "The subject names no environment: every writer of the account trusts the branch (ADR 109).",
        ),
    ),
    *of(
        "made by CI",
        yes("s3:GetObject", _in_store("vision-dev", "out/a/0"), "Its environment's roles read it."),
        no("s3:GetObject", _in_store("vision-prod", "out/a/0"), "The store is another environment's."),
        no("s3:PutObject", _in_store("vision-prod", "pipeline.json"), "It is another environment's."),
        no("s3:GetObject", NAMED_LIKE_DEV, "A wildcard also matches what follows a slash."),
        yes("s3:GetObject", BUCKET, "The bootstrap stack lists it for every environment."),
        no("s3:GetObject", OTHERS_BUCKET, "The bootstrap stack does not list it."),
        no("s3:GetObject", PRODS_STACK, "No role of a stack reads the state."),
        no("s3:GetObject", COPY, "No role of a stack reads the state's replica."),
        no("kms:Decrypt", STATES_KEY, "No role of a stack reads the state's secrets."),
        yes("kms:Decrypt", DEV_KEY, "Its environment's stores are encrypted with it."),
        no("kms:Decrypt", PROD_KEY, "The key is another environment's."),
        yes("secretsmanager:GetSecretValue", OWN_SECRET, "It carries the tag of dev."),
        no("secretsmanager:GetSecretValue", PRODS_SECRET, "It carries the tag of prod."),
        no(
            "secretsmanager:GetSecretValue",
            _secret("a secret without a tag", "payroll"),
            "It was not given to the environment.",
        ),
        yes(
            "elasticfilesystem:ClientWrite",
            PROD_FILES,
            "EFS knows clients by no tag: the network is the wall (ADR 76).",
        ),
        no("elasticfilesystem:DeleteFileSystem", PROD_FILES, "Its files are another environment's."),
        no("ecs:SubmitTaskStateChange", _cluster("vision-prod"), "It is another environment's."),
        no("batch:SubmitJob", _queue("vision-prod", **ASKED), "It is another environment's."),
        no("batch:TerminateJob", PRODS, "The job is another environment's."),
        no("ecr:PutImage", REPOSITORY["vision-prod"], "Its images run in another environment."),
        no("logs:GetLogEvents", LOGS["vision-prod"], "The lines are another environment's."),
        no("iam:CreateUser", USER, "No role of a stack makes users."),
        no("sts:AssumeRole", CIS_WRITER, "No role of a stack becomes another."),
        no("s3:GetObject", FEDERATED, "No role of a stack trusts an identity provider."),
    ),
    *aws_sender.PROBES,
]
