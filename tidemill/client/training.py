"""What a pipeline does with hyperparameters in place of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.client.state import settings_of

if TYPE_CHECKING:
    from tidemill.client.job import Job
    from tidemill.client.sweep import Sweep

TRAIN_SECONDS = 86_400.0
"""Limit of an attempt of a training without state, unless the caller says otherwise."""


class Trainer:
    """The part of a `Pipeline` that trains."""

    submit: Callable[..., Job]

    def train(
        self,
        command: Sequence[str] | None,
        sweep: Sweep | Mapping[str, Sequence[Any]] | None = None,
        *,
        state: bool | Mapping[str, Any] | None = None,
        timeout_seconds: float | None = None,
        **options: Any,
    ) -> Job:
        """Send a job that has hyperparameters in place of items: the command runs once for every combination.

        It is `submit` with other defaults: items with state, one per chunk, a week per attempt, and the variables of
        SageMaker.

        Args:
            command: Program and arguments; `{lr}` is the hyperparameter `lr`, and `{state}` the folder for checkpoints.
            sweep: A `Sweep`, or lists of values by name; None for a single item.
            state: False for items without state, which begin anew when their machine goes; or settings, see `submit`.
            timeout_seconds: Limit of one attempt; None for seven days, and without state for one.
            options: Other arguments of `submit`, such as `queue`, `name` and `code`.

        Raises:
            CallerError: See `submit`.

        Example:
            >>> command = ["python3", "train.py", "--lr", "{lr}", "--checkpoints", "{state}"]
            >>> job = pipeline.train(command, {"lr": [1e-3, 3e-4]}, queue="cpu")
            >>> job.spec.items_total
            2
        """
        from tidemill.client.sweep import Sweep

        if state is None:
            # A function has no state: it is for short items.
            state = options.get("function") is None
        if timeout_seconds is None and settings_of(state) is None:
            timeout_seconds = TRAIN_SECONDS
        combinations = sweep if isinstance(sweep, Sweep) else Sweep(sweep)
        # A limit decides how many chunks there are.
        defaults: dict[str, Any] = {"chunk_size": None if options.get("max_parallel") else 1, "layout": "sagemaker"}
        return self.submit(command, combinations, state=state, timeout_seconds=timeout_seconds, **(defaults | options))
