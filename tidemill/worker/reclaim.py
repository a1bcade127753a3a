"""Notices that the machine is being taken back.

Instance metadata (IMDSv2) names a Spot interruption about two minutes ahead:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html. It is asked every few
seconds, because ECS draining alone does not stop a Batch job.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.worker.stop import Stop, Why

TOKEN_SECONDS = 21_600
TIMEOUT_SECONDS = 2.0
ABSENT_AFTER = 3
"""Polls without any answer after which the metadata is asked less often: this is not a machine of EC2's."""
ABSENT_PAUSE = 60.0
LONGEST_NOTICE = 180.0
_ACTION = "/latest/meta-data/spot/instance-action"


@dataclass(frozen=True)
class Notice:
    """A notice: about when the machine goes."""

    seconds_left: float | None
    """None when it does not say, or says what cannot be."""

    @classmethod
    def read(cls, text: str) -> Notice:
        """A notice from the metadata's JSON (``action`` and ``time``)."""
        try:
            left = (datetime.fromisoformat(json.loads(text)["time"]) - datetime.now(UTC)).total_seconds()
        except (ValueError, KeyError, TypeError):
            return cls(None)
        # A clock may be wrong by minutes; notices are about two minutes ahead.
        return cls(left if 0 < left <= LONGEST_NOTICE else None)

    def until_not_placeable(self, at_most: float) -> float:
        """Seconds from the notice until its host is given no more work: an eighth of what was left (15 s of two
        minutes), because a notice that comes late leaves less to everybody."""
        return at_most if self.seconds_left is None else min(at_most, self.seconds_left / 8)


class Metadata:
    """Instance metadata, version 2: every read carries a session token.

    Args:
        endpoint: Its base URL.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint.rstrip("/")
        self._token: str | None = None
        # A proxy of the container's must not stand between a machine and its own metadata.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def notice(self) -> Notice | None:
        """The notice that the machine is being taken back, or None.

        Raises:
            OSError: Nobody answers.
        """
        for _ in range(2):
            if self._token is None:
                self._token = self._read(
                    "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS
                )
            try:
                return Notice.read(self._read("GET", _ACTION, "X-aws-ec2-metadata-token", self._token))
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return None
                if error.code != 401:
                    raise
                self._token = None
        return None

    def _read(self, method: str, path: str, header: str, value: object) -> str:
        request = urllib.request.Request(self._endpoint + path, method=method, headers={header: str(value)})
        with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return answer.read().decode()


class Watch:
    """Asks the metadata in a thread of its own and raises the flag at a notice.

    Args:
        metadata: What to ask, or None where there is nothing to ask.
        stop: The flag.
        poll_seconds: How often.
    """

    def __init__(self, metadata: Metadata | None, stop: Stop, poll_seconds: float) -> None:
        self._metadata, self._stop, self._poll = metadata, stop, poll_seconds
        self._end = threading.Event()
        self.notice: Notice | None = None

    def start(self) -> None:
        """Ask once, at once, and then go on beside the work. A machine without metadata costs no time."""
        if self._metadata is None:
            return
        first_done = threading.Event()
        threading.Thread(target=self._run, args=(first_done,), name="reclaim", daemon=True).start()
        first_done.wait(TIMEOUT_SECONDS + 1)

    def close(self) -> None:
        """Ask no more."""
        self._end.set()

    def _run(self, first_done: threading.Event) -> None:
        assert self._metadata is not None
        failures = 0
        while not self._end.is_set():
            try:
                self.notice = self._metadata.notice()
                if self.notice:
                    self._stop(Why.NOTICE)
                    return
                failures = 0
            except OSError:
                failures += 1
            finally:
                first_done.set()
            self._end.wait(self._poll if failures < ABSENT_AFTER else max(self._poll, ABSENT_PAUSE))
