"""A worker of a shelf: its starter names its chunk."""

from collections.abc import Mapping
from contextlib import ExitStack

from tidemill.services.batch.lease.array import ArrayLeases
from tidemill.worker.place import WorkerPlace
from tidemill.worker.settings import Settings


def place(settings: Settings, env: Mapping[str, str], at_the_end: ExitStack) -> WorkerPlace:
    return WorkerPlace(None, ArrayLeases(env))
