"""Mutant: no worker adds up what a job has cost."""

from typing import Any

from tidemill.worker import held_chunks


def never(*_: Any) -> bool:
    return False


def apply() -> None:
    held_chunks.ends_job = never
