"""A job queue is protected: its waiting and running jobs end with it.

A policy sees no old state, so it cannot see a replacement; protection is what stops one.
Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_DeleteJobQueue.html
"""

from .common.kinds import JOB_QUEUE
from .common.protection import unprotected
from .common.rule import HIGH, Resource, Violations, resource_rule


@resource_rule("Job queues are protected from replacement and deletion.", HIGH, JOB_QUEUE)
def violations(args: Resource) -> Violations:
    yield from unprotected(args, "the jobs in it", "replace or purge")
