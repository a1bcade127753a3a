"""The queues of a service in a pipeline, which its cloud's parts ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pulumi

from tidemill import services
from tidemill.services import Served

from ..config import Queue, StackConfig
from ..rooms import service_room


class ServiceQueues:
    """The queues of one service in a pipeline. A service's module `queues` has its subclass as `QUEUES`.

    Args:
        name: The pipeline's name, which the names of resources begin with.
        queues: The service's queues by the names that users type.
        parts: The pipeline's parts on its cloud, such as `components.aws.pipeline.AwsParts`.
    """

    resources: Sequence[pulumi.Resource] = ()
    """Everything that is made for the queues."""

    def __init__(self, name: str, queues: Mapping[str, Queue], parts: Any) -> None:
        self.queues, self.parts = queues, parts

    def described(self) -> dict[str, Any]:
        """The queues in the descriptor, by their names."""
        raise NotImplementedError

    def monitored(self) -> Mapping[str, Any]:
        """Arguments of the cloud's monitoring that the queues give. A pipeline without any has no monitoring."""
        return {}

    def outputs(self) -> Mapping[str, Mapping[str, pulumi.Output[str]]]:
        """Outputs of the pipeline by queue, under the names of their attributes, such as `job_queue_arns`."""
        return {}

    def grant(self) -> None:
        """Give the pipeline's machines and submitters what only these queues need."""

    def submit_statements(self, names: Collection[str]) -> list[Any]:
        """On AWS: the statements of a submitter's policy that let submit to some of the queues."""
        return []

    def job_statements(self) -> list[Any]:
        """On AWS: the statements of a submitter's policy for the jobs of all queues."""
        return []

    def grant_send(self, member: Any, names: Collection[str]) -> None:
        """On GCP: let the sender's member submit to some of the queues."""


def make_queues(name: str, config: StackConfig, parts: Any) -> list[ServiceQueues]:
    """All queues of a pipeline, by their services."""
    groups = services.by_service(config.cloud, config.queues).items()
    return [service_room(service, "queues").QUEUES(name, queues, parts) for service, queues in groups]


def monitored_by(made: Sequence[ServiceQueues]) -> dict[str, Any]:
    """The arguments that all services give to their cloud's monitoring."""
    return {key: value for each in made for key, value in each.monitored().items()}


def outputs_of(made: Sequence[ServiceQueues], *names: str) -> dict[str, dict[str, pulumi.Output[str]]]:
    """Some outputs of the pipeline by queue, of all services."""
    given = [each.outputs() for each in made]
    return {name: {key: value for each in given for key, value in each.get(name, {}).items()} for name in names}


def worker_variables(cloud: str, queue: Served) -> dict[str, str]:
    """Variables that tell a worker its queue's service, where it is not the cloud's own."""
    service = services.of_queue(cloud, queue)
    return {} if service == services.of_cloud(cloud) else {"TIDEMILL_SERVICE": service.name}
