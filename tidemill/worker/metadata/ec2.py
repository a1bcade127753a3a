"""What a machine on AWS tells about itself: Spot's notice, as the machine's host service has written it into a file.

Containers do not reach instance metadata. The file holds what EC2 says there, about two minutes ahead of an
interruption: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tidemill.worker.metadata import Notice

LONGEST_NOTICE = 180.0


class Ec2Notice:
    """The notice of a machine on AWS, which appears as a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def notice(self) -> Notice | None:
        """The notice that the machine is being taken back, or None; `OSError` if the file cannot be read."""
        try:
            return read_notice(self._file.read_text(errors="replace"))
        except FileNotFoundError:
            return None


def read_notice(text: str) -> Notice:
    try:
        left = (datetime.fromisoformat(json.loads(text)["time"]) - datetime.now(UTC)).total_seconds()
    except (ValueError, KeyError, TypeError):
        return Notice(None)
    # A clock may be wrong by minutes; notices are about two minutes ahead.
    return Notice(left if 0 < left <= LONGEST_NOTICE else None)
