"""Mutant: no worker adds up what a job has cost."""

from typing import Any

from tidemill.worker import loop


def never(*_: Any) -> bool:
    return False


def apply() -> None:
    loop.ends_job = never
