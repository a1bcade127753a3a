"""How often Spot machines are taken away, from the feed of AWS's Spot Instance Advisor.

One public file holds all regions. AWS publishes the page, not the feed's shape, so a feed that is gone or looks
different is a refusal, and the table keeps what it has.
Source: https://aws.amazon.com/ec2/spot/instance-advisor/
"""

import datetime
import json
import re
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import Any

URL = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
_TIMEOUT_SECONDS = 60
_MOST_BYTES = 64 << 20
_LABEL = re.compile(r"<(?P<most>\d+)%|(?P<low>\d+)-(?P<high>\d+)%|>(?P<least>\d+)%")


def download() -> tuple[bytes, str | None]:
    """The feed, and its `Last-Modified`.

    Raises:
        OSError: It could not be read.
    """
    with urllib.request.urlopen(URL, timeout=_TIMEOUT_SECONDS) as answer:
        return answer.read(_MOST_BYTES), answer.headers.get("Last-Modified")


class Feed:
    """The feed, read when it is first asked for and once."""

    source = f"EC2 Spot Instance Advisor, {URL}, Linux"

    def __init__(self, download: Callable[[], tuple[bytes, str | None]] = download) -> None:
        self._download = download

    def percent(self, region: str) -> dict[str, list[int]]:
        """By type, the percentages of machines between which interruptions of the last month are.

        Raises:
            OSError: The feed could not be read.
            ValueError: The feed is not JSON, or a label of it is not a range.
            KeyError: The feed has another shape, or does not have the region.
        """
        feed, _ = self._read()
        ranges = {each["index"]: _range(each["label"]) for each in feed["ranges"]}
        return {kind: ranges[row["r"]] for kind, row in feed["spot_advisor"][region]["Linux"].items()}

    @property
    def as_of(self) -> datetime.date:
        """The day on which AWS wrote it; today where it does not say."""
        return self._read()[1]

    def _read(self) -> tuple[Any, datetime.date]:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    @cached_property
    def _answer(self) -> tuple[Any, datetime.date] | Exception:
        """A failure is kept too: it is the same for all regions."""
        try:
            content, modified = self._download()
            day = parsedate_to_datetime(modified).date() if modified else datetime.datetime.now(datetime.UTC).date()
            return json.loads(content), day
        except (OSError, ValueError) as error:
            return error


def _range(label: str) -> list[int]:
    """`<5%`, `5-10%` or `>20%` as percentages."""
    match = _LABEL.fullmatch(label)
    if match is None:
        raise ValueError(f"{label!r} is not a range of percentages")
    low, high = match["low"] or match["least"] or 0, match["high"] or match["most"] or 100
    return [int(low), int(high)]
