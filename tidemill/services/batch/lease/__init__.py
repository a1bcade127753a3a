"""A worker in a container of AWS Batch: one child of an array."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from tidemill.ending.message import Message
from tidemill.services.batch.lease.array import ArrayLeases
from tidemill.worker.metadata.ec2 import Ec2Notice, read_machine
from tidemill.worker.place import WorkerPlace
from tidemill.worker.settings import Settings


def place(settings: Settings, env: Mapping[str, str], at_the_end: ExitStack) -> WorkerPlace:
    def publish(topic: str, message: Message) -> None:
        from tidemill.worker.channels import Sns

        Sns(env).publish(topic, message)

    if not settings.notice:
        return WorkerPlace(None, ArrayLeases(env), publish=publish, replaced=True)
    facts = read_machine(settings.notice.with_name("machine"))
    return WorkerPlace(Ec2Notice(settings.notice), ArrayLeases(env), facts=facts, publish=publish, replaced=True)
