"""The reconciler on GCP without one of its safeguards."""

from typing import Any

import pytest

from components.services.pubsub.reconciler_function import chains, decide, main


class _Every:
    def __contains__(self, topic: object) -> bool:
        return True


def any_topic(patch: pytest.MonkeyPatch) -> None:
    """It publishes to the topic that an object names."""
    real: Any = chains._look_at
    patch.setattr(chains, "_look_at", lambda *arguments: real(*arguments[:-1], _Every()))


def busy_removed(patch: pytest.MonkeyPatch) -> None:
    """A running machine is taken for one that never came, so that a fleet that is too large shrinks."""
    state = decide.Machine.state

    def seen(self: decide.Machine) -> str:
        found = state.__get__(self)
        return "absent" if found == "up" else found

    patch.setattr(decide.Machine, "state", property(seen))


def never_there_stays(patch: pytest.MonkeyPatch) -> None:
    """Machines that are wanted and never came stay wanted, as with an autoscaler that only adds machines."""
    patch.setattr(decide, "_never_there", lambda *_: [])


def powered_off_stays(patch: pytest.MonkeyPatch) -> None:
    """Machines that have powered themselves off are left in their group."""
    patch.setattr(decide, "_powered_off", lambda *_: [])


def rung_stays_closed(patch: pytest.MonkeyPatch) -> None:
    """The On-Demand rung never opens, however dry the Spot market is."""
    patch.setattr(decide, "_rung", lambda *_: [])


def same_turn(patch: pytest.MonkeyPatch) -> None:
    """Each run begins with the same job that waits."""
    patch.setattr(chains, "_in_turn", lambda names, run: names)


def work_arrives_late(patch: pytest.MonkeyPatch) -> None:
    """It carries out its decision however long ago it looked."""
    patch.setattr(main, "FRESH_READ_SECONDS", 10**9)
