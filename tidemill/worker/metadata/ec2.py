"""Reads the files in which the host service of a machine on AWS writes what the machine is, and Spot's notice.

Containers do not reach instance metadata. The notice is what EC2 says there, about two minutes ahead of an
interruption: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html. Its hint that
the risk has risen is a file too: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html.
Machines that an earlier stack has started never write that one.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.worker.metadata import Notice

LONGEST_NOTICE = 180.0
HINT = "rebalance"
"""The second file's name."""
_MARKETS = {"spot": "spot", "on-demand": "on_demand"}
"""By `instance-life-cycle`: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html."""


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

    def at_risk(self) -> bool:
        """True if EC2 recommends to leave the machine."""
        return self._file.with_name(HINT).exists()


def read_machine(file: Path) -> RanOn:
    """The machine as the host service has described it; unknown where an older service has not."""
    try:
        fields = json.loads(file.read_text(errors="replace"))
        facts = {key: str(fields[key]) for key in ("id", "type", "zone", "market") if fields.get(key)}
    except (OSError, ValueError, AttributeError):
        return UNKNOWN
    return RanOn(**facts | {"market": _MARKETS.get(facts.get("market", ""))})


def read_notice(text: str) -> Notice:
    try:
        left = (datetime.fromisoformat(json.loads(text)["time"]) - datetime.now(UTC)).total_seconds()
    except (ValueError, KeyError, TypeError):
        return Notice(None)
    # A clock may be wrong by minutes; notices are about two minutes ahead.
    return Notice(left if 0 < left <= LONGEST_NOTICE else None)
