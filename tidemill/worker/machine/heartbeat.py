"""A machine on GCP says now and then that its worker is alive: one that is silent for long is frozen, and the
reconciler removes it (ADR 35)."""

from __future__ import annotations

import time

from tidemill.errors import StoreError
from tidemill.layout import FLEET_ALIVE
from tidemill.store import Store
from tidemill.worker.output import log


class MachineHeartbeat:
    """Writes an empty object for this machine every so many seconds; its time is the store's own."""

    def __init__(self, store: Store, machine: str, seconds: float) -> None:
        self._store, self._name, self._seconds = store, f"{FLEET_ALIVE}/{machine}", seconds
        self._next_at = 0.0

    def beat(self) -> None:
        """Write if it is time. Called by the worker's loop, so that a loop that hangs is silent too."""
        now = time.monotonic()
        if now < self._next_at:
            return
        self._next_at = now + self._seconds
        try:
            self._store.put(self._name, b"")
        except StoreError as error:
            # Work that cannot reach the store ends the worker; this alone does not.
            log(f"cannot write this machine's heartbeat: {error}", "warning")
