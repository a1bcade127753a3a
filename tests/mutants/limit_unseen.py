"""Mutant: no worker adds up what a job has cost."""

from typing import Any

from tidemill.worker import held


def never(*_: Any) -> bool:
    return False


def apply() -> None:
    held.ends_job = never
