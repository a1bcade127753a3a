"""Probes of what AWS Batch, ECS and CloudWatch answer."""

from typing import Any

from ops.first_account.account import Account, DiffersError
from tidemill.client import Job


def cancelled_once(account: Account) -> str:
    """How many attempts the chunks of a cancelled job have."""
    attempts = {one["jobId"]: len(one.get("attempts", [])) for one in _children(account, account.cancelled)}
    if max(attempts.values(), default=0) != 1:
        raise DiffersError(f"attempts by child: {attempts}.")
    return f"attempts by child: {sorted(attempts.values())}"


def one_stream(account: Account) -> str:
    """How many log streams were made while a job ran."""
    children = _children(account, account.finished)
    attempts = [attempt for one in children for attempt in one["attempts"]]
    begin, end = min(one["createdAt"] for one in children), max(one["stoppedAt"] for one in attempts)
    logs, group = _client(account, "logs"), account.pipeline.descriptor.log_group
    pages = logs.get_paginator("describe_log_streams").paginate(logGroupName=group)
    made = [one for page in pages for one in page["logStreams"] if begin <= one["creationTime"] <= end]
    if len(made) != len(attempts):
        raise DiffersError(f"{len(made)} streams for {len(attempts)} attempts.")
    return f"{len(made)} streams for {len(attempts)} attempts"


def cluster_names(account: Account) -> str:
    """How the ECS clusters of the queue's compute environments are named."""
    batch = _client(account, "batch")
    queue = account.pipeline.descriptor.queues[account.queue].aws
    assert queue is not None
    [described] = batch.describe_job_queues(jobQueues=[queue.job_queue])["jobQueues"]
    rungs = [one["computeEnvironment"] for one in described["computeEnvironmentOrder"]]
    environments = batch.describe_compute_environments(computeEnvironments=rungs)["computeEnvironments"]
    odd = [
        f"{one['computeEnvironmentName']} has {one['ecsClusterArn']}"
        for one in environments
        if not one["ecsClusterArn"].rpartition("/")[2].startswith(_cluster_names(one["computeEnvironmentName"]))
    ]
    if odd:
        raise DiffersError(f"{'; '.join(odd)}.")
    return f"{len(environments)} compute environments, each with a cluster of an expected name"


def _cluster_names(environment: str) -> tuple[str, str]:
    """How the clusters begin that the instance role's policy names."""
    return f"AWSBatch-{environment}-", f"{environment}_Batch_"


def _client(account: Account, service: str) -> Any:
    import boto3  # noqa: PLC0415 (not installed for stacks on GCP)

    return boto3.client(service, region_name=account.pipeline.descriptor.region)


def _children(account: Account, job: Job) -> list[dict[str, Any]]:
    """AWS Batch's descriptions of a job's chunks."""
    batch, jobs = _client(account, "batch"), []
    queue = account.pipeline.descriptor.queues[account.queue]
    for array in account.pipeline.site.backend(account.queue).describe(queue, job.id):
        ids = [f"{array.id}:{n}" for n in range(array.size)] if array.size > 1 else [array.id]
        jobs += batch.describe_jobs(jobs=ids)["jobs"]
    return jobs
