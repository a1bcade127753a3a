"""Metadata of a machine on Compute Engine: whether it is being preempted, and its account's tokens.

With ``wait_for_change`` the server answers when the value differs from that of ``last_etag``, or after ``timeout_sec``.
``instance/preempted`` turns from FALSE to TRUE when a Spot machine is taken back
(https://cloud.google.com/compute/docs/instances/create-use-spot#detect-preemption).
"""

from __future__ import annotations

import time
from contextlib import suppress

from tidemill.ledger.digest import RanOn
from tidemill.store.metadata_server import HOST, TIMEOUT_SECONDS, MetadataServer
from tidemill.worker.metadata import Notice

PAUSES = (0.5, 2.0)
"""Seconds before each further question about what the machine is: it is asked only once in a worker's life."""
WAIT_SECONDS = 60
"""How long the server holds a question for a change."""
PREEMPTION_SECONDS = 30.0
"""Between the notice and the end of a preempted machine:
https://cloud.google.com/compute/docs/instances/spot#preemption-process."""
_PREEMPTED = "instance/preempted"


class GceMetadata(MetadataServer):
    """Metadata of a machine on Compute Engine, from a server at ``host[:port]``."""

    def __init__(self, host: str = HOST) -> None:
        super().__init__(host)
        self._etag: str | None = None
        self._asked = False

    def notice(self) -> Notice | None:
        """The notice that the machine is being preempted, or None. The first question is answered at once, a later
        one when there is news.

        Raises:
            OSError: No answer.
        """
        waits = self._asked and self._etag is not None
        value = self.read(
            _PREEMPTED,
            TIMEOUT_SECONDS + (WAIT_SECONDS if waits else 0),
            {"wait_for_change": "true", "timeout_sec": WAIT_SECONDS, "last_etag": self._etag} if waits else {},
        )
        self._asked, self._etag = True, value.etag
        return Notice(PREEMPTION_SECONDS) if value.text.strip().upper() == "TRUE" else None

    def at_risk(self) -> bool:
        """Never: Compute Engine says nothing ahead of a preemption
        (https://cloud.google.com/compute/docs/instances/spot#preemption-process)."""
        return False

    def place(self) -> tuple[str, str]:
        """The machine's name and zone; `OSError` if nothing answers."""
        name, zone = (self._fact(what) for what in ("name", "zone"))
        return name, zone.rpartition("/")[2]

    def machine(self, name: str, zone: str) -> RanOn:
        """Describe the machine of this name and zone; `OSError` if nothing answers."""
        kind = self._fact("machine-type").rpartition("/")[2]
        spot = self._fact("scheduling/preemptible").strip().upper() == "TRUE"
        return RanOn(name, kind, zone, "spot" if spot else "on_demand")

    def _fact(self, name: str) -> str:
        for pause in PAUSES:
            with suppress(OSError):
                return self.read(f"instance/{name}").text
            time.sleep(pause)
        return self.read(f"instance/{name}").text
