"""Instance metadata of EC2, version 2 (IMDSv2): every read carries a session token.

It names a Spot interruption about two minutes ahead:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime

from tidemill.worker.metadata import Notice

TOKEN_SECONDS = 21_600
TIMEOUT_SECONDS = 2.0
LONGEST_NOTICE = 180.0
_ACTION = "/latest/meta-data/spot/instance-action"


class Ec2Metadata:
    """Instance metadata of EC2.

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
                return read_notice(self._read("GET", _ACTION, "X-aws-ec2-metadata-token", self._token))
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


def read_notice(text: str) -> Notice:
    """A notice from the metadata's JSON (``action`` and ``time``)."""
    try:
        left = (datetime.fromisoformat(json.loads(text)["time"]) - datetime.now(UTC)).total_seconds()
    except (ValueError, KeyError, TypeError):
        return Notice(None)
    # A clock may be wrong by minutes; notices are about two minutes ahead.
    return Notice(left if 0 < left <= LONGEST_NOTICE else None)
