"""The queues of a pipeline that are on AWS Batch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import pulumi

from ...aws.policy import Statement
from ...aws.submitter import jobs_statements, submit_statement
from ...config import Queue
from ..queues import ServiceQueues
from .batch_queue import AwsBatchQueue, AwsBatchQueueArgs
from .describe import described

if TYPE_CHECKING:
    from ...aws.pipeline import AwsParts


class BatchQueues(ServiceQueues):
    """A job queue of AWS Batch for each queue."""

    parts: AwsParts

    def __init__(self, name: str, queues: Mapping[str, Queue], parts: AwsParts) -> None:
        super().__init__(name, queues, parts)
        self._made = {key: self._make(f"{name}-{key}", key, queue) for key, queue in queues.items()}
        self.resources = [*self._made.values()]

    def outputs(self) -> dict[str, dict[str, pulumi.Output[str]]]:
        return {"job_queue_arns": {key: queue.arn for key, queue in self._made.items()}}

    def monitored(self) -> dict[str, Any]:
        return {
            "queues": {key: queue.arn for key, queue in self._made.items()},
            "market_queues": {key: queue.markets for key, queue in self._made.items()},
            "clusters": {key: [*queue.clusters] for key, queue in self._made.items()},
        }

    def _make(self, name: str, key: str, queue: Queue) -> AwsBatchQueue:
        parts, config = self.parts, self.parts.config
        worker, existing = config.worker_of(*queue.architectures("aws")), config.imports.queues.get(key)
        args = AwsBatchQueueArgs(
            queue=key,
            settings=queue,
            images={image: parts.pulled(reference) for image, reference in queue.images.items()},
            subnet_ids=parts.network.subnet_ids,
            zones=parts.zones,
            security_group_ids=parts.security_groups(),
            instance_profile_arn=parts.identity.instance_profile_arn,
            execution_role_arn=parts.identity.execution_role.arn,
            job_role_arn=parts.identity.job_role.arn,
            store_uri=parts.store.uri,
            log_group=parts.logs.group,
            team=config.team,
            environment=config.environment,
            worker_image=parts.pulled(worker) if worker else None,
            reads_mounts=True,
            file_systems={key: made.source for key, made in parts.file_systems.items()},
            imported=existing.job_queue if existing else None,
            **parts.outbound(),
            disk_key=parts.disk_key,
            replace=config.may_replace,
            tags=parts.tags,
        )
        return AwsBatchQueue(name, args, parts.child)

    def described(self) -> dict[str, Any]:
        """The queues in the descriptor, by their names."""
        return {key: described(self.queues[key], queue) for key, queue in self._made.items()}

    def submit_statements(self, names: Collection[str]) -> list[Statement]:
        """Submit to some of the queues."""
        arns = [arn for name in names if name in self._made for arn in self._made[name].submit_arns]
        return [submit_statement(arns, self.parts.config.team)] if arns else []

    def job_statements(self) -> list[Statement]:
        """Tag, end and watch the team's jobs."""
        config = self.parts.config
        return jobs_statements(self.parts.account, config.team, config.environment)


QUEUES = BatchQueues
