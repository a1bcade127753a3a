"""Outputs on their way up while their slots work on other items: few of them, and of bounded size."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tidemill.errors import StoreUnavailableError
from tidemill.store.errors import as_exception
from tidemill.worker.items.staging import Outputs, Staging
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.programs.faults import ItemError, item_error

SIDE_BY_SIDE = 4
MOST = 16
"""Items whose outputs wait or are on their way."""
MOST_BYTES = 1024 * 1024 * 1024
SCRATCH_SHARE = 8
"""They take at most this part of what is free on the scratch volume."""
Sent = Callable[[ItemError | StoreUnavailableError | None], None]


class OutputUploads:
    """Sends outputs in the background. An item has succeeded when its own are sent."""

    def __init__(self, staging: Staging, scratch: Scratch) -> None:
        self._staging, self._scratch = staging, scratch
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="uploads")
        self._lock = threading.Lock()
        self._count = self._bytes = 0

    def begin(self, outputs: Outputs, sent: Sent) -> bool:
        """Send outputs, and call `sent` when they are, from another thread; false when the caller has to send them
        itself, because enough are on their way."""
        with self._lock:
            limit = min(MOST_BYTES, self._scratch.free_bytes() // SCRATCH_SHARE)
            if self._count >= MOST or self._bytes + outputs.bytes > limit:
                return False
            self._count += 1
            self._bytes += outputs.bytes
        self._pool.submit(self._begun, outputs, sent)
        return True

    def _begun(self, outputs: Outputs, sent: Sent) -> None:
        def over(error: ItemError | StoreUnavailableError | None) -> None:
            with self._lock:
                self._count -= 1
                self._bytes -= outputs.bytes
            sent(error)

        self.send(outputs, over)

    def send(self, outputs: Outputs, sent: Sent) -> None:
        """Send outputs in this thread, and call `sent`."""
        error = None
        try:
            self._staging.send(outputs)
        except (ItemError, StoreUnavailableError) as failure:
            error = failure
        except BaseException as failure:  # an upload that dies silently would hang its chunk
            error = item_error("output", f"the output cannot be uploaded to {outputs.prefix}", as_exception(failure))
        sent(error)
