"""What became of a job's items, for programs: values of a function, outcomes, a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemill.client.live import showing
from tidemill.client.values import stream_values
from tidemill.client.waiting import Watched


class Readable:
    """The part of a `Job` that programs read."""

    id: str
    _watched: Watched

    def values(self, *, return_exceptions: bool = False, progress: bool | None = None) -> Iterator[Any]:
        """What the job's function returned for each item, in the items' order, as soon as it is known.

        Waits for what still runs. Values are read a few at a time, however many there are. Values that are not short
        JSON are kept by jobs of `Pipeline.map`, and of `submit` with `keep_values`; elsewhere they are None.

        Args:
            return_exceptions: Yield the failure of an item in place of its value; otherwise the first one is raised.
            progress: Show how the job goes; by default in a notebook and on a terminal.

        Raises:
            ItemFailedError: An item failed; its cause is the traceback on the machine.
            JobEndedError: The job was cancelled, or its rest is lost.

        Example:
            >>> list(job.values())
            Traceback (most recent call last):
            tidemill.errors.ItemFailedError: Item 1 of tiles-..., 's3://raw/1.jpg', failed (exit): ValueError: no. ...
        """
        with showing(self.id, progress) as on_status:
            yield from stream_values(self._watched, return_exceptions=return_exceptions, on_status=on_status)
