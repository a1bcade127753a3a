"""One queue from parts: the program chooses each part, and grants each role what it needs and nothing else."""

import pulumi
import pulumi_aws as aws
from tidemill_pulumi import (
    AwsBatchQueue,
    AwsBatchQueueArgs,
    AwsIdentity,
    AwsIdentityArgs,
    AwsLogs,
    AwsLogsArgs,
    AwsNetwork,
    AwsNetworkArgs,
    AwsStore,
    AwsStoreArgs,
    Item,
    Queue,
    Rung,
    StackConfig,
)
from tidemill_pulumi.base import team_tags
from tidemill_pulumi.describe import as_text, describe

IMAGE = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b"
TEAM, ENVIRONMENT = "vision", "dev"

purge = pulumi.Config().get_bool("purge") or False
tags = team_tags(TEAM, ENVIRONMENT)
settings = Queue(images={"default": IMAGE}, item=Item(cpus=2, memory_mib=4096), capacity=[Rung(max_cpus=64)])

network = AwsNetwork("vision-dev-network", AwsNetworkArgs(zones=2, tags=tags))
store = AwsStore("vision-dev-store", AwsStoreArgs(expire_jobs_after_days=90, purge=purge, tags=tags))
logs = AwsLogs("vision-dev-logs", AwsLogsArgs(purge=purge, tags=tags))
identity = AwsIdentity("vision-dev-identity", AwsIdentityArgs(tags=tags))
store.grant_work(identity.job_role)
logs.grant_write(identity.execution_role)

queue = AwsBatchQueue(
    "vision-dev-cpu",
    AwsBatchQueueArgs(
        queue="cpu",
        settings=settings,
        images={"default": IMAGE},
        subnet_ids=network.subnet_ids,
        security_group_ids=[network.security_group_id],
        instance_profile_arn=identity.instance_profile_arn,
        execution_role_arn=identity.execution_role.arn,
        job_role_arn=identity.job_role.arn,
        store_uri=store.uri,
        log_group=logs.group,
        team=TEAM,
        environment=ENVIRONMENT,
        replace=purge,
        tags=tags,
    ),
)

# What people need to submit: a role that may submit to this queue alone, and the pipeline's description in the store.
account = aws.get_caller_identity_output().account_id
identity.grant_submitters([*queue.submit_statements(), *store.submit_statements(), *logs.read_statements()])
descriptor = describe(
    StackConfig(team=TEAM, environment=ENVIRONMENT, queues={"cpu": settings}),
    region=aws.get_region_output().region,
    account=account,
    store_uri=store.uri,
    log_group=logs.group,
    queues=[queue],
)
pulumi.export("pipeline_uri", store.publish(as_text(descriptor)))
pulumi.export("submitter_policy_arns", identity.submitter_policy_arns)
