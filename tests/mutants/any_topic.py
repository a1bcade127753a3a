"""Mutant: the reconciler publishes to the topic that an object names."""

from __future__ import annotations

from dataclasses import dataclass

from components.services.pubsub.reconciler_function import chains


@dataclass(frozen=True)
class _Every:
    def __contains__(self, topic: object) -> bool:
        return True


def apply() -> None:
    real = chains._look_at
    chains._look_at = lambda cloud, objects, others, name, topics: real(cloud, objects, others, name, _Every())  # type: ignore[assignment, arg-type]
