"""The worker's lines as entries of Cloud Logging.

On AWS what a container prints becomes CloudWatch's lines as they are. On Container-Optimized OS no log driver reads
JSON out of a line, so that a line's job and item could not be asked for
(https://docs.docker.com/engine/logging/drivers/gcplogs); therefore the worker writes the entries itself:
https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/write.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import Any

from tidemill.worker.google_api import Api, ApiError
from tidemill.worker.output import log

PAUSE_SECONDS = 2.0
"""Seconds between two writes: lines are sent together."""
CALL_SECONDS = 10.0
ENTRIES = 500
"""Entries per write at most; with lines of `output.LINE_BYTES` that can be 16 MiB, so bytes are counted too."""
ENTRY_BYTES = 4 << 20
"""Bytes per write; the limit is 10 MiB (https://cloud.google.com/logging/quotas#api-limits)."""
KEPT_BYTES = 32 << 20
"""Bytes of lines that wait while writing fails. Further lines are dropped and counted."""
LONGEST_PAUSE = 30.0
CLOSE_SECONDS = 5.0
"""Seconds for the last lines at the end."""
_BAD_REQUEST = 400
_SEVERITIES = {"info": "INFO", "warning": "WARNING", "error": "ERROR"}


class CloudLog:
    """The log ``projects/<project>/logs/<id>`` of Cloud Logging; its entries belong to a monitored resource."""

    def __init__(self, api: Api, name: str, resource: dict[str, Any]) -> None:
        self._api, self._name, self._resource = api, name, resource
        self._run_id = secrets.token_hex(6)
        self._count = 0
        self._waiting: deque[tuple[int, dict[str, Any]]] = deque()
        self._bytes = self._dropped = 0
        self._most = ENTRIES
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, lines: list[tuple[dict[str, Any], int]]) -> None:
        """Take lines, each with its bytes; they are sent a moment later. Never waits."""
        at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        with self._changed:
            for line, size in lines:
                if self._bytes + size > KEPT_BYTES:
                    self._dropped += 1
                    continue
                self._add(line, size, at)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join(CLOSE_SECONDS)

    def _add(self, line: dict[str, Any], size: int, at: str) -> None:
        # The id turns a line that is sent twice into one entry.
        self._count += 1
        entry = {
            "insertId": f"{self._run_id}-{self._count:09d}",
            "timestamp": at,
            "severity": _SEVERITIES.get(str(line.get("level")), "DEFAULT"),
            "jsonPayload": line,
        }
        self._waiting.append((size, entry))
        self._bytes += size

    def _run(self) -> None:
        failures = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                if not self._waiting:
                    return
                pause = PAUSE_SECONDS if not failures else min(LONGEST_PAUSE, PAUSE_SECONDS * 2**failures)
                self._changed.wait_for(lambda: self._ended, pause)
                entries = self._take()
            failures = 0 if self._send(entries, first=not failures) else failures + 1
            if failures and self._ended:
                # `close` waits for a bounded time.
                time.sleep(min(0.2, PAUSE_SECONDS))

    def _take(self) -> list[tuple[int, dict[str, Any]]]:
        """The next entries, oldest first; they keep their place until they were sent."""
        if self._dropped:
            text = f"{self._dropped} lines were dropped: Cloud Logging took none of them for too long"
            self._add({"level": "warning", "message": text}, len(text), self._waiting[-1][1]["timestamp"])
            self._dropped = 0
        taken, size = [], 0
        for one in self._waiting:
            if taken and (len(taken) >= self._most or size + one[0] > ENTRY_BYTES):
                break
            taken.append(one)
            size += one[0]
        return taken

    def _send(self, taken: list[tuple[int, dict[str, Any]]], *, first: bool) -> bool:
        body = {
            "logName": self._name,
            "resource": self._resource,
            "entries": [entry for _, entry in taken],
            "partialSuccess": True,
        }
        try:
            self._api.post("v2/entries:write", body, CALL_SECONDS)
        except ApiError as error:
            if error.code == _BAD_REQUEST:
                # One of them is malformed: the others must not wait for it.
                self._most = 1
                if len(taken) == 1:
                    self._forget(1)
                return True
            if first:
                log(f"cannot write log entries to {self._name}: {error}", "warning")
            return False
        self._most = ENTRIES
        self._forget(len(taken))
        return True

    def _forget(self, count: int) -> None:
        with self._changed:
            for _ in range(count):
                size, _ = self._waiting.popleft()
                self._bytes -= size


def resource_of(project: str, queue: str, instance: str, zone: str) -> dict[str, Any]:
    """The monitored resource of a queue's machine (``generic_node``,
    https://cloud.google.com/logging/docs/api/v2/resource-list#tag_generic_node)."""
    labels = {"project_id": project, "location": zone, "namespace": queue, "node_id": instance}
    return {"type": "generic_node", "labels": labels}
