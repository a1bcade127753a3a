"""An existing job queue to import."""

import pulumi
import pulumi_aws as aws

from ...config import ConfigError
from ...config.errors import key_path, shown


def name_to_import(key: str, queue: str, parent: pulumi.Resource) -> str:
    """The name of a queue to import.

    This refuses a FIFO queue in the preview; Batch would refuse its policy in the middle of an update.

    Args:
        key: the queue's name as users type it.
        queue: its ARN.

    Raises:
        ConfigError: the queue cannot be read, or has no fair-share policy.
    """
    name = queue.rpartition("/")[2]
    path = key_path(["imports", "queues", key, "job_queue"])
    try:
        answer = aws.batch.get_job_queue(name=name, opts=pulumi.InvokeOptions(parent=parent))
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ConfigError(path, shown(queue), "a job queue that can be read", f"The cloud says: {reason}") from None
    if not answer.scheduling_policy_arn:
        raise ConfigError(
            path,
            f"{shown(queue)}, a FIFO queue,",
            "a queue with a fair-share scheduling policy, which Batch never adds to a queue",
            "Leave the key out for a new queue; delete the old one when its jobs are done",
        )
    return name
