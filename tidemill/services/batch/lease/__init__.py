"""A worker in a container of AWS Batch: one child of an array."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack

from tidemill.ending.message import Message
from tidemill.services.batch.lease.array import ArrayLeases
from tidemill.worker.metadata.ec2 import Ec2Notice, read_machine
from tidemill.worker.place import UNKNOWN, WorkerPlace
from tidemill.worker.settings import Settings


def place(settings: Settings, env: Mapping[str, str], at_the_end: ExitStack) -> WorkerPlace:
    def publish(topic: str, message: Message) -> None:
        from tidemill.worker.channels import Sns

        Sns(env).publish(topic, message)

    notice, facts = None, UNKNOWN
    if settings.notice:
        notice, facts = Ec2Notice(settings.notice), read_machine(settings.notice.with_name("machine"))

    def secrets(store: str | None, names: Collection[str]) -> Mapping[str, str]:
        from tidemill.worker.secret_readers import SecretsManager, given_from

        return given_from(SecretsManager(env).read)(store, names)

    return WorkerPlace(notice, ArrayLeases(env), facts=facts, publish=publish, secrets=secrets, replaced=True)
