"""What a pipeline says of a submit before it is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidemill.client.job import Job
from tidemill.client.site import Log, Site

if TYPE_CHECKING:
    from tidemill.client.preview import JobPreview
    from tidemill.client.submit import Submission


class Previewer:
    """The part of a `Pipeline` that previews."""

    submit: Callable[..., Job]
    train: Callable[..., Job]

    @staticmethod
    def _act(site: Site, asked: Submission, log: Log) -> Job:
        """What `submit` does with a submission, once it is put together."""
        from tidemill.client.submit import submit

        return submit(site, asked, log)

    def preview(self, command: Sequence[str] | None, items: Any, **options: Any) -> JobPreview:
        """What a submit would do: it is checked in the same way, and nothing is created or written.

        Args:
            command: See `submit`.
            items: See `submit`.
            options: Other arguments of `submit`.

        Raises:
            CallerError: See `submit`.

        Example:
            >>> pipeline.preview(["python3", "features.py", "{uri}", "{output}"], "items.txt", queue="cpu").items
            3
        """
        return self._looked_at("submit", command, items, **options)

    def preview_training(self, command: Sequence[str] | None, sweep: Any = None, **options: Any) -> JobPreview:
        """The same of `train`, whose arguments it has.

        Raises:
            CallerError: See `submit`.

        Example:
            >>> pipeline.preview_training(["python3", "train.py", "{lr}", "{state}"], {"lr": [1, 2]}, queue="cpu").items
            2
        """
        return self._looked_at("train", command, sweep, **options)

    def _looked_at(self, verb: str, *arguments: Any, **options: Any) -> JobPreview:
        from copy import copy

        from tidemill.client.preview import preview

        found: list[JobPreview] = []
        looking: Any = copy(self)
        looking._act = lambda site, asked, log: found.append(preview(site, asked, log))
        getattr(looking, verb)(*arguments, **options)
        return found[0]
