"""Training: a request with hyperparameters in place of items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.client.plan.state_settings import settings_of
from tidemill.request import JobRequest

if TYPE_CHECKING:
    from tidemill.client.items.sweep import Sweep

TRAIN_SECONDS = 86_400.0
"""Limit of an attempt of a training without state, unless the caller says otherwise."""


def training(
    command: Sequence[str] | None,
    sweep: Sweep | Mapping[str, Sequence[Any]] | None = None,
    *,
    state: bool | Mapping[str, Any] | None = None,
    timeout_seconds: float | None = None,
    **options: Any,
) -> JobRequest:
    """The request of `Pipeline.train`."""
    from tidemill.client.items.sweep import Sweep

    if state is None:
        # A function has no state: it is for short items.
        state = options.get("function") is None
    if timeout_seconds is None and options.get("timeout") is None and settings_of(state) is None:
        timeout_seconds = TRAIN_SECONDS
    combinations = sweep if isinstance(sweep, Sweep) else Sweep(sweep)
    # A limit decides how many chunks there are.
    defaults: dict[str, Any] = {"chunk_size": None if options.get("max_parallel") else 1, "layout": "sagemaker"}
    return JobRequest(command, combinations, state=state, timeout_seconds=timeout_seconds, **(defaults | options))
