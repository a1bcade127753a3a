"""Existing resources that a stack imports."""

import re
from typing import Annotated

from pydantic import Field

from .model import Model
from .types import BUCKET, JOB_QUEUE, REPOSITORY, SUBSCRIPTION, TOPIC, Name, matching


class QueueImport(Model):
    """An existing queue: `job_queue` on AWS, `topic` and `subscription` on GCP."""

    job_queue: (
        Annotated[str, matching(JOB_QUEUE, "the ARN of a job queue, arn:aws:batch:<region>:<account>:job-queue/<name>")]
        | None
    ) = Field(
        default=None,
        description="AWS: ARN of a job queue with a fair-share policy; a FIFO queue cannot get one. It moves to this "
        "stack's compute environments; jobs on its earlier ones continue there.",
    )
    topic: Annotated[str, matching(TOPIC, "projects/<project>/topics/<name>")] | None = Field(
        default=None, description="GCP: full name of the topic."
    )
    subscription: Annotated[str, matching(SUBSCRIPTION, "projects/<project>/subscriptions/<name>")] | None = Field(
        default=None,
        description="GCP: full name of the topic's subscription, without a filter and without ordering. Empty it "
        "first: workers drop messages that are not chunks.",
    )


class Imports(Model):
    """Existing resources that this stack imports. They keep their names, so leave the keys in the file.

    Imported resources get this stack's settings and tags. Bucket and repositories stay when the stack is destroyed.
    """

    store: Annotated[str, matching(BUCKET, "the name of a bucket")] | None = Field(
        default=None,
        description="Bucket that becomes the job store. On AWS this stack overwrites its policy, lifecycle rules and "
        "encryption; its objects stay unchanged.",
    )
    repositories: dict[
        Name, Annotated[str, matching(re.compile(r"[a-z0-9]+([._/-]+[a-z0-9]+)*"), "the name of a repository", 256)]
    ] = Field(
        default={},
        max_length=100,
        description="AWS: names of ECR repositories, by their names in this stack's `registry://` images.",
    )
    repository: (
        Annotated[str, matching(REPOSITORY, "projects/<project>/locations/<region>/repositories/<name>")] | None
    ) = Field(default=None, description="GCP: full name of the Artifact Registry repository for all images.")
    queues: dict[Name, QueueImport] = Field(
        default={}, max_length=20, description="Queues by their names in `tidemill:queues`."
    )
